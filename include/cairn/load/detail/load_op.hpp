// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_LOAD_OP_HPP
#define CAIRN_LOAD_DETAIL_LOAD_OP_HPP

#include <cairn/detail/config.hpp>
#include <cairn/load/detail/load_fsm.hpp>
#include <cairn/load/detail/load_parts.hpp>
#include <cairn/load/detail/load_turns.hpp>
#include <cairn/load/detail/read_once/plane_groups.hpp>
#include <cairn/load/options.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/verb/detail/collective_op.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::detail {

/// One rank's part of one load: carries out the decisions of `load_fsm`.
class load_op : public collective_op<load_op, load_fsm, load_report> {
public:
    /// @param state  Kept until the end.
    /// @param then   Called once, as the last step, or when the executor drops the load.
    load_op(surroundings in, std::shared_ptr<flattened_or_error> state, checkpoint_id id,
            load_options options, load_parts parts, ended then);
    ~load_op();

    /// Ends the load on all ranks with @ref errc::cancelled, at the next exchange; cuts a broadcast
    /// short. Any thread.
    void cancel() noexcept;

private:
    friend collective_op;

    void begin() { clock_.begin(parts_.verb, id_, ranks_->rank(), ranks_->size()); }
    std::optional<event> perform(step s);
    void cut_broadcast() noexcept;
    void cut_plane() noexcept;
    void reset_reader();
    static metadata as_sent(metadata m, std::span<const std::byte> sent);
    std::vector<std::byte> tell(stored_index stored);
    void learn_metadata(const std::vector<std::byte>& told);
    void set_up();
    std::vector<std::byte> tell(load_plan plan);
    void check_ties();
    void put_unmatched(wire_writer& w) const;
    std::vector<std::byte> global_plan();
    std::optional<event> finish_plan();
    std::vector<rank_failure> agreed(const std::vector<outcome>& all);
    template <class F>
    void broadcast(F f);
    std::vector<std::byte> end_of_turn();
    std::vector<rank_failure> compare(const std::vector<outcome>& all);
    event what_next(event e);
    event look();
    void restart();
    void finish();
    void release() noexcept;
    error broken(const std::exception_ptr& e);
    std::exception_ptr broken_without_memory() const noexcept {
        return fsm_.state_modified() ? out_of_memory_ : nullptr;
    }

    std::shared_ptr<flattened_or_error> state_;
    checkpoint_id id_;
    load_options options_;
    load_parts parts_;
    metadata meta_{};
    checkpoint_id coordinators_id_{};
    std::uint64_t coordinators_mapping_ = 0;
    std::optional<load_turns> turns_;
    std::vector<read_item> items_{};       ///< Not sent to the coordinator and back.
    std::vector<std::string> no_items_{};  ///< Likewise.
    plane_place place_{};
    std::vector<std::vector<std::byte>> messages_{};  ///< The coordinator's, to each rank.
    std::vector<std::byte> my_plan_{};
    load_plan plan_{};
    bool was_modified_ = false;  ///< By an attempt with a checkpoint that was replaced.
    outcome looked_{};           ///< Whether the checkpoint was replaced; on the coordinator.
    std::vector<std::string> ties_not_checked_{};  ///< Warnings.
    std::vector<phase_time> phases_{};
    std::exception_ptr out_of_memory_{};  ///< Made before memory changes.
};

}  // namespace cairn::detail

#endif
