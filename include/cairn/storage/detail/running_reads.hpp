// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RUNNING_READS_HPP
#define CAIRN_STORAGE_DETAIL_RUNNING_READS_HPP

#include <cairn/detail/forks.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/registered_id.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

struct registry_of_reads;
struct registry_of_notices;

inline constexpr std::string_view reading_prefix = ".reading.";
inline bool is_reading_name(std::string_view name) {
    return name.starts_with(reading_prefix) && is_save_id(name.substr(reading_prefix.size()));
}

/// The content of `.reading.<random id>`: which process reads the checkpoint, and since when.
///
///     2 u8 · began · owner · room for more · CRC-32 of all before
struct read_notice {
    std::int64_t began = 0;  ///< Seconds since 1970, by the reader's clock: for people.
    record_owner owner{};

    byte_vector encode() const {
        wire_writer w;
        w.u8(2);
        w.svarint(began);
        put(w, owner);
        w.u32(format::crc32(w.written()));
        return w.take();
    }
    /// @throws error errc::unsupported for a notice of a newer cairn, errc::corrupt for other
    /// invalid bytes.
    static read_notice decode(byte_span b) {
        if (b.size() < 5 || wire_reader(b.last(4)).u32() != format::crc32(b.first(b.size() - 4)))
            wire_reader::fail("no notice of a reader");
        wire_reader r(b);
        auto const version = r.u8();
        if (version > 2)
            throw error(errc::unsupported, {.expected = "a notice of version 2",
                                            .found = "version " + std::to_string(version)});
        if (version != 2) wire_reader::fail("a notice of an unknown version");
        read_notice n;
        n.began = r.svarint();
        n.owner = get_owner(r);
        return n;
    }
};

/// Registers, for its lifetime, that a checkpoint is being read: retention does not remove it.
class running_read {
public:
    /// Registers the read in this process only.
    explicit running_read(const std::string& save_id) : id_(save_id) {}
    /// Registers the read for other processes too, by a file in the checkpoint's place. A crash may
    /// lose it.
    running_read(const std::string& save_id, const any_store& place)
        : id_(save_id), place_(place.without_sync()),
          name_(std::string(reading_prefix) + new_save_id()), notice_(std::in_place, name_) {
        heeded_stop const also_when_cancelled{std::stop_token()};
        place_->publish(name_, read_notice{save_intent::now(), record_owner::this_one()}.encode(),
                        std::nullopt);
    }
    running_read(running_read&&) = delete;
    ~running_read() {
        if (!place_ || !home_.is_this()) return;
        heeded_stop const also_when_cancelled{std::stop_token()};
        try {
            place_->remove(name_);
        } catch (...) {  // it is stale: nobody is registered for it any more
        }
    }

private:
    registered_id<registry_of_reads> id_;
    std::optional<any_store> place_{};
    std::string name_{};
    std::optional<registered_id<registry_of_notices>> notice_{};
    home_process home_{};
};

/// Whether a checkpoint is being read: by this process, or by one that has left a notice. Removes
/// notices of processes, or of reads of this one, that have ended.
/// @param own  An object that was published just now: its time is the storage's. Empty: reads whose
///             end only their age could show count as running.
template <ObjectStore Store>
bool is_being_read(Store& place, const std::string& save_id, std::string_view own) {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;
    bool read = registered_id<registry_of_reads>::is(save_id);
    auto const there = place.list();
    auto const now = modification_times(there).of(own);
    for (auto const& info : there) {
        if (!is_reading_name(info.name)) continue;
        bool over = false;
        auto const bytes = read_existing(place, info.name, most_bytes);
        if (!bytes) continue;
        try {
            auto const n = read_notice::decode(*bytes);
            auto const& owner = n.owner;
            over = is_this_process(owner.process)
                       ? !registered_id<registry_of_notices>::is(info.name)
                       : has_ended(owner.process) ||
                             job_attempt::of_this_process().follows(owner.job) ||
                             is_expired(info.modified, now);
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::corrupt))
                over = true;  // cut short by a crash
            else if (e.code() != make_error_code(errc::unsupported))
                throw;
        }
        if (over)
            place.remove(info.name);
        else
            read = true;
    }
    return read;
}

}  // namespace cairn::detail

#endif
