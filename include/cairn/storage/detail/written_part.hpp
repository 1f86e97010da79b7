// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WRITTEN_PART_HPP
#define CAIRN_STORAGE_DETAIL_WRITTEN_PART_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::detail {

/// What one rank has written of a checkpoint, so that the same rank can write it elsewhere, from
/// its files. Filled in by a save, and not changed after its end.
struct written_part {
    std::string save_id{};
    save_plan plan{};
    write_results results{};
    commit_record record{};  ///< On the coordinator.
    bool held = false;       ///< The checkpoint is kept until it is written elsewhere.
    /// Ranks whose disks the coordinator does not see; none: it is not known.
    std::optional<std::vector<int>> apart{};
    /// Told what the rank works on, as soon as the save has begun. May be empty.
    std::function<void(const std::shared_ptr<cairn::activity>&)> begun{};

    /// Returns metadata of these items alone, with which they are read.
    CAIRN_DECL metadata meta() const;
    /// Returns the plan that writes them all again.
    CAIRN_DECL save_plan again() const;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/written_part.ipp>
#endif

#endif
