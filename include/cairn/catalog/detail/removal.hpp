// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_REMOVAL_HPP
#define CAIRN_CATALOG_DETAIL_REMOVAL_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// How a removal has ended.
enum class removal { removed, in_use, replaced, too_late };

/// Removes a checkpoint, so that at any moment it is whole or does not exist. Publishes an intent
/// that lists its files, like a save that replaces them by nothing; then removes the metadata, the
/// files, the intent, and the place. If it is interrupted, `collect_place` continues.
///
/// Nothing is removed while this process reads it, or a process that has announced it, or while a
/// save to the same place is running.
/// @param save_id   The save that wrote it: a checkpoint that has replaced it is not removed.
/// @param warnings  About what could not be done.
/// @param until     From then on the metadata stays: what makes the checkpoint dispensable may have
///                  been removed by another run. Not of the system's clock, which can be set.
/// @throws error what the store throws before the metadata is removed
CAIRN_DECL removal remove_checkpoint(
    any_store root, const checkpoint_id& id, const std::string& save_id,
    std::vector<std::string>& warnings, cairn::activity* activity = nullptr,
    cairn::activity::clock::time_point until = cairn::activity::clock::time_point::max());

/// Removes what ended saves and removals have left in a place, and the place if it is then empty.
/// Whatever a checkpoint or a running save needs stays.
/// @param again  Whether intents stay, too: files that they list may appear yet.
/// @return Whether nothing is left that a later call may remove.
CAIRN_DECL bool collect_place(any_store root, const checkpoint_id& id,
                              std::vector<std::string>& warnings,
                              cairn::activity* activity = nullptr, bool again = false);

/// What a run remembers of the checkpoints in a store, from save to save.
struct run_memory {
    known_records known{};
    struct own_save {
        checkpoint_id place{};
        std::string id{};
        bool stood = false;    ///< It was seen committed.
        bool is_left = false;  ///< What it may have left, not having committed, is collected.
    };
    /// Saves of this run that may have committed, in their order.
    std::vector<own_save> saves{};
    struct read_one {
        std::size_t number = 0;        ///< Its position among the reads, from 1.
        std::size_t saves_before = 0;  ///< Of this run.
    };
    /// Checkpoints that this run has read successfully, by number and time of their commits, which
    /// a copy shares: the last time of each.
    std::map<std::pair<std::uint64_t, std::int64_t>, read_one> read{};
    std::size_t reads = 0;
    std::map<std::string, std::size_t> tried{};  ///< Failed removals, by save.
    std::set<std::string> told{};                ///< Warnings that were given.
    bool collected = false;                      ///< Leftovers of earlier runs were removed.
    std::set<checkpoint_id> left{};              ///< Places where some could not be.
    std::set<checkpoint_id> uncertain{};         ///< Places where some may appear yet.
    std::set<std::string> held{};                ///< Saves whose checkpoints stay for now.
    std::vector<std::string> removed{};          ///< Saves whose checkpoints were removed.
};

/// Removes the checkpoints that `keep` does not keep, if they are where a `checkpointer` has saved
/// them: copies, and renamed or linked ones, stay. Removes a limited number; the next call
/// continues, first with those of which the fewest removals have failed. The first call also
/// finishes removals that were interrupted.
/// @param own      The current save, whose checkpoint stays; may be empty.
/// @return Warnings about what could not be done, one for each place.
CAIRN_DECL std::vector<std::string> retain(any_store root, const retention& keep, run_memory& run,
                                           const std::string& own,
                                           cairn::activity* activity = nullptr);

/// Replaces the ids in rules by those that the store lists.
/// @param paths_only  Only ids that depend on the working directory.
CAIRN_DECL retention with_place_ids(const any_store& root, const retention& keep,
                                    bool paths_only = false);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/removal.ipp>
#endif

#endif
