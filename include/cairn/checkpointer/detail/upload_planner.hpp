// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_UPLOAD_PLANNER_HPP
#define CAIRN_CHECKPOINTER_DETAIL_UPLOAD_PLANNER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/source_data.hpp>
#include <cairn/storage/detail/source_pieces.hpp>
#include <cairn/storage/detail/written_part.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A SavePlanner whose state is what this rank has written of another checkpoint. It is read when
/// it is written, piece by piece, from files of this rank only: other ranks' may be on the disks of
/// other hosts.
class upload_planner {
public:
    upload_planner(any_store from, checkpoint_id id, std::shared_ptr<const written_part> part)
        : from_(std::move(from)), id_(std::move(id)), part_(std::move(part)) {}

    CAIRN_DECL void set_up_save(const flat_state& nothing, int rank, bool coordinator);
    save_plan create_local_save_plan() { return part_->again(); }
    CAIRN_DECL std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan> all);
    save_plan finish_save_plan(save_plan plan) { return plan; }
    item_data resolve_data(const write_item& item) { return data_.resolve(*pieces_, item); }
    /// Each item is in the plan of one rank.
    std::optional<replica_writer> joins() const noexcept { return replica_writer::least_loaded; }

private:
    any_store from_;
    checkpoint_id id_;
    std::shared_ptr<const written_part> part_;
    std::unique_ptr<source_pieces> pieces_{};  ///< Set up by `set_up_save`.
    source_data data_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/upload_planner.ipp>
#endif

#endif
