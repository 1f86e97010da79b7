// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SAVE_OP_HPP
#define CAIRN_SAVE_DETAIL_SAVE_OP_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/save/detail/replicas.hpp>
#include <cairn/save/detail/save_fsm.hpp>
#include <cairn/save/detail/save_parts.hpp>
#include <cairn/save/detail/save_plans.hpp>
#include <cairn/save/detail/staging.hpp>
#include <cairn/save/options.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/collective_op.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/polling.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank's part of one save: carries out the decisions of `save_fsm`.
class save_op : public collective_op<save_op, save_fsm, save_report> {
public:
    /// @param state   Kept until the end; its tensors are not used once it is staged.
    /// @param staged  If set, the save works on a copy of all tensors; called once it is made.
    /// @param then    Called once, as the last step, or when the executor drops the save.
    save_op(surroundings in, std::shared_ptr<const flattened_or_error> state, checkpoint_id id,
            save_options options, save_parts parts, std::function<void()> staged, ended then);
    ~save_op();

    /// Ends the save on all ranks with @ref errc::cancelled, unless its results are already sent.
    /// Any thread.
    void cancel() noexcept { set_cancelled(); }
    /// Of this rank's part. Any thread.
    std::shared_ptr<const cairn::activity> activity() const noexcept { return clock_.activity(); }
    /// Calls `f`, on the executor, when neither a device nor the writer uses the tensors; returns
    /// false if neither does already. Called on the executor, of a save that copies.
    bool when_free(std::function<void()> f) {
        if (!staging_.in_progress() && !writes_tensors_) return false;
        (writes_tensors_ ? when_written_ : staging_.when_over()) = std::move(f);
        return true;
    }

private:
    friend collective_op;

    void begin() { clock_.begin(parts_.verb, id_, ranks_->rank(), ranks_->size()); }
    std::optional<event> perform(step s);
    void open();
    void set_up();
    void await_space() const;
    static std::pair<std::uint64_t, std::uint64_t> content(const save_plan& plan);
    void begin_staging(polling::then copied);
    std::vector<std::byte> staged();
    void await_release(const std::vector<std::uint32_t>& items);
    void all_written();
    void tell_staged();
    template <class Start>
    std::optional<event> writes(const Start& start);
    void await_update();
    void go_on() noexcept {
        resume([this] { return written(); });
    }
    void check_unchanged();
    event written();
    std::optional<event> commit();
    void prepare_metadata();
    event query();
    void send_verdict();
    rank_failure in_doubt(std::string found) const;
    event resolve_outcome();
    event abandon();
    void acknowledge();
    std::optional<event> sweep();
    event swept(call_result<sweep_result> r);
    void finish();
    void release() noexcept;
    error broken(const std::exception_ptr& e) const {
        if (fsm_.may_be_committed()) return {{in_doubt(text_of(e))}, false};
        if (!failures_.empty()) return {failures_, false};
        return {{failure_from(e, ranks_->rank())}, false};
    }
    std::exception_ptr broken_without_memory() const noexcept {
        return fsm_.may_be_committed() ? doubt_ : nullptr;
    }

    std::shared_ptr<const flattened_or_error> state_;
    checkpoint_id id_;
    save_options options_;
    save_parts parts_;
    std::function<void()> on_staged_;
    bool writes_tensors_ = false;  ///< The copy is not complete: the writer uses tensors.
    std::function<void()> when_written_{};
    std::vector<bool> left_out_{};             ///< Of the copy, for each item.
    std::atomic<std::uint64_t> unwritten_{0};  ///< Of those, how many are still to be written.
    item_released released_{};
    bool begun_ = false;        ///< The writer was reset for this save.
    bool all_removed_ = false;  ///< The files that this rank wrote, after a failure.
    checkpoint_id coordinators_id_;
    std::uint64_t coordinators_mapping_ = 0;
    save_plans plans_;
    std::vector<std::byte> answer_;  ///< The coordinator's message about the plan.
    save_plan plan_;                 ///< As this rank writes it.
    std::vector<item_data> data_;    ///< For each item of `plan_`.
    std::span<const item_data> items_{};
    staging staging_{in_, stop_.get_token()};  ///< Has what `data_` refers to, if that is a copy.
    call_result<write_results> results_{};
    std::vector<std::byte> hashes_;
    replica_table replicas_;
    metadata meta_;
    phase_table phases_;
    save_report report_;
    std::exception_ptr doubt_{};  ///< Made before the save may be committed.
};

}  // namespace cairn::detail

#endif
