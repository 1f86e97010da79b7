// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_REMOVAL_HPP
#define CAIRN_CATALOG_REMOVAL_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/object_store/erased_store.hpp>
#include <cairn/storage/concepts.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cairn::detail {

/// How a removal has ended.
enum class removal { removed, in_use, replaced };

/// Removes a checkpoint, so that at any moment it is whole or does not exist: an intent that lists
/// its files, as of a save that replaces them by nothing; the metadata; the files; the intent; the
/// place. If it is interrupted, `collect_place` continues.
///
/// Nothing is removed while this process reads it, or a process that has announced it, or while a
/// save to the same place is running.
/// @param save_id   Of the save that wrote it: one that has replaced it is not removed.
/// @param warnings  About what could not be done.
/// @throws error what the store throws before the metadata is removed
CAIRN_DECL removal remove_checkpoint(erased_store root, const checkpoint_id& id,
                                     const std::string& save_id, std::vector<std::string>& warnings,
                                     cairn::activity* activity = nullptr);

/// Removes what ended saves and removals have left in a place, and the place if it is then empty.
/// Whatever a checkpoint or a running save needs stays.
CAIRN_DECL void collect_place(erased_store root, const checkpoint_id& id,
                              std::vector<std::string>& warnings,
                              cairn::activity* activity = nullptr);

/// Checkpoints that this run has read successfully, with the ids of their saves.
using read_checkpoints = std::map<checkpoint_id, std::string>;

/// Removes what `keep` does not keep, of the checkpoints that are where a `checkpointer` has saved
/// them: a copy, or what was renamed, stays. At most a number of them; the next call goes on.
/// @param own      The save that asks, whose checkpoint stays; may be empty.
/// @param collect  Also finishes removals that were interrupted.
/// @return Warnings about what could not be done.
CAIRN_DECL std::vector<std::string> retain(erased_store root, const retention& keep,
                                           const read_checkpoints& read, const std::string& own,
                                           bool collect, cairn::activity* activity = nullptr);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/removal.ipp>
#endif

#endif
