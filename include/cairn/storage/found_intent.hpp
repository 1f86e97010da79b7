// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_FOUND_INTENT_HPP
#define CAIRN_STORAGE_FOUND_INTENT_HPP

#include <cairn/detail/process_identity.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/data_names.hpp>
#include <cairn/storage/running_saves.hpp>
#include <cairn/storage/save_intent.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::detail {

/// An intent expires after this time if its owner's state cannot be determined.
inline constexpr std::chrono::hours intent_expiry{24};

/// @param began  As in a `save_intent`.
inline bool is_expired(std::int64_t began) {
    auto const limit = std::chrono::duration_cast<std::chrono::seconds>(intent_expiry).count();
    return began <= save_intent::now() - limit;
}

/// An intent in a place, and what can be said of its save.
struct found_intent {
    std::string name{}, save_id{};
    save_intent what{};    ///< Empty unless `readable`.
    bool readable = true;  ///< False: cut short by a crash, for it is replaced in one step.
    bool newer = false;    ///< Written by a newer cairn, whose rules are unknown.
    bool on_this_host = false;
    bool ended = false;    ///< Its save certainly runs no longer.
    bool expired = false;  ///< It began so long ago that it is presumed to have ended.

    bool over() const noexcept { return ended || expired; }
};

/// @param info  Of an object whose name is an intent's.
/// @return Nothing if it was removed meanwhile.
template <ObjectStore Store>
std::optional<found_intent> read_intent(Store& store, const object_info& info) {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;
    found_intent i;
    i.name = info.name;
    i.save_id = info.name.substr(intent_prefix.size());
    byte_vector bytes;
    try {
        auto r = store.open(info.name);
        if (std::uint64_t const size = r.size(); size > most_bytes)
            throw error(errc::unsupported, {.file = store.describe(info.name),
                                            .expected = "an intent",
                                            .found = std::to_string(size) + " bytes"});
        else
            bytes.resize(static_cast<std::size_t>(size));
        if (!bytes.empty()) r.read(0, bytes);
    } catch (const error& e) {
        if (e.code() == make_error_code(errc::not_found)) return {};  // its save ended just now
        throw;
    }
    try {
        i.what = save_intent::decode(bytes);
        i.readable = i.what.save_id.empty() || i.what.save_id == i.save_id;
    } catch (const error& e) {
        i.newer = e.code() == make_error_code(errc::unsupported);
        i.readable = false;
    }
    auto const& owner = i.what.owner;
    bool const mine = is_this_process(owner);
    i.on_this_host = mine || (!owner.boot.empty() && owner.boot == boot_id());
    i.ended = mine ? !running_save::is(i.save_id) : has_ended(owner);
    i.expired = !mine && is_expired(i.what.began);
    if (!i.readable) i.what = {};
    return i;
}

}  // namespace cairn::detail

#endif
