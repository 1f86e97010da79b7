// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FOUND_INTENT_HPP
#define CAIRN_STORAGE_DETAIL_FOUND_INTENT_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::detail {

/// An intent in a place, and the status of its save.
struct found_intent {
    std::string name{}, save_id{};
    object_tag tag{};          ///< Of the version that was read, or of an earlier one.
    save_intent what{};        ///< Empty unless `readable`.
    bool readable = true;      ///< False: cut short by a crash, for it is replaced in one step.
    bool newer = false;        ///< Written by a newer cairn, whose rules are unknown.
    bool own_process = false;  ///< This process coordinates it, or did.
    bool on_this_host = false;
    bool ended = false;       ///< Its process has certainly stopped working on it.
    bool superseded = false;  ///< This process is of a later attempt of its job.
    bool stays = false;       ///< It could not be adopted.
    bool expired = false;  ///< It has shown no sign of life for so long that it is presumed dead.

    bool over() const noexcept { return ended || superseded || expired; }
    /// Whether it may still commit.
    bool runs() const noexcept { return newer || (readable && !over()); }
    /// Whether it is a removal's, which ends with no checkpoint.
    bool removes() const noexcept { return what.names.empty() && !what.replaced.empty(); }

    /// Determines `expired`: the storage's times of the intent and of the files that it lists are
    /// signs of life.
    /// @param now  By the storage's clock; 0: not known.
    void judge_age(const modification_times& times, std::int64_t now) {
        std::int64_t last = times.of(name);
        for (auto const& n : what.names) last = std::max(last, times.of(n));
        expired = !own_process && is_expired(last, now);
    }
};

/// @param info  Of an object whose name is an intent's.
/// @return Nothing if it was removed meanwhile.
template <ObjectStore Store>
std::optional<found_intent> read_intent(Store& store, const object_info& info) {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 26;
    found_intent i;
    i.name = info.name;
    i.save_id = info.name.substr(intent_prefix.size());
    i.tag = store.tag(info.name);
    auto const bytes = read_existing(store, info.name, most_bytes);
    if (!bytes) return {};  // its save ended just now
    try {
        i.what = save_intent::decode(*bytes);
        i.readable = i.what.save_id == i.save_id;
    } catch (const error& e) {
        i.newer = e.code() == make_error_code(errc::unsupported);
        i.readable = false;
    }
    auto const& owner = i.what.owner;
    auto const& process = owner.process;
    i.own_process = is_this_process(process);
    i.on_this_host = i.own_process || (!process.boot.empty() && process.boot == boot_id());
    i.ended = i.own_process ? !running_save::is(i.save_id) : has_ended(process);
    i.superseded = !i.own_process && job_attempt::of_this_process().follows(owner.job);
    if (!i.readable) i.what = {};
    return i;
}

/// Makes this process the owner of a save that has not certainly ended, so that it cannot commit:
/// a save publishes only if its intent is the one that it wrote.
/// @return Whether it was still as it was found.
template <ObjectStore Store>
bool adopt(Store& store, found_intent& i) {
    i.what.save_id = i.save_id;
    i.what.owner = record_owner::this_one();
    try {
        store.publish(i.name, i.what.encode(), i.tag);
        return true;
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::concurrent_save)) throw;
        return false;
    }
}

}  // namespace cairn::detail

#endif
