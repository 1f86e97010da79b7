// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_SAVE_OP_HPP
#define CAIRN_SAVE_SAVE_OP_HPP

#include <cairn/comm/exchange.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/detail/surroundings.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/replicas.hpp>
#include <cairn/save/save_fsm.hpp>
#include <cairn/save/save_parts.hpp>
#include <cairn/save/snapshot.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank's part of one save: carries out the decisions of `save_fsm`, one asynchronous step per
/// state. Steps run on the executor, one at a time; parts are called there and nowhere else, and no
/// step holds its thread while another rank or the storage is waited for.
class save_op : public std::enable_shared_from_this<save_op> {
public:
    using ended = std::function<void(std::exception_ptr, save_report)>;

    /// @param state   Kept until the end; its tensors are not used once it is staged.
    /// @param staged  If set, the save works on a copy of the tensors; called once it is made.
    /// @param then    Called once, as the last step, or when the executor drops the save.
    save_op(surroundings in, std::shared_ptr<const flattened_or_error> state, checkpoint_id id,
            save_options options, save_parts parts, std::function<void()> staged, ended then);
    save_op(save_op&&) = delete;
    ~save_op();

    /// Starts the save on the executor.
    void start();
    /// Ends the save on all ranks with @ref errc::cancelled, unless its results are already sent.
    /// Any thread.
    void cancel() noexcept { cancelled_ = true; }

private:
    using step = save_fsm::step;
    using event = save_fsm::event;

    /// Runs steps until one waits.
    void run() noexcept;
    template <class F>
    void resume(F&& f) noexcept;
    /// @return How the step ended; nothing if it continues later.
    std::optional<event> perform(step s);
    template <class F>
    event worked(const char* phase, F&& f);
    template <class F>
    event exchanged(F&& f);
    void heed_cancellation() const;
    static event outcome_of(const std::vector<rank_failure>& failures);
    template <class Start>
    std::optional<event> starts(Start start);
    /// The continuation of an exchange, whose result `f` reads: it returns the failures that all
    /// ranks now know.
    template <class T, class F>
    std::function<void(call_result<T>)> received(F f);

    void open();
    std::vector<std::byte> local_plan();
    std::vector<rank_failure> keep(std::vector<outcome> all);
    std::vector<std::byte> global_plan();
    void send_plans();
    static std::pair<std::uint64_t, std::uint64_t> content(const save_plan& plan);
    void stage();
    std::optional<event> write();
    event written(call_result<write_results> r);
    std::optional<event> commit();
    void prepare_metadata();
    event committed_or_doubt(call_result<commit_result> r);
    void send_verdict();
    rank_failure in_doubt(std::string found) const;
    event resolve_outcome();
    event abandon();
    void acknowledge();
    std::optional<event> sweep();
    event swept(call_result<sweep_result> r);
    void finish();
    void end(std::exception_ptr e, save_report r) noexcept;
    void fail(std::exception_ptr e) noexcept;
    error dropped() const;

    surroundings in_;
    std::shared_ptr<const flattened_or_error> state_;
    checkpoint_id id_;
    save_options options_;
    save_parts parts_;
    std::function<void()> staged_;
    ended then_;
    std::atomic<bool> cancelled_{false};
    phase_clock clock_;
    std::optional<exchange> ranks_;  ///< Until the end.
    save_fsm fsm_;
    bool begun_ = false;        ///< The writer was reset for this save.
    bool all_removed_ = false;  ///< The files that this rank wrote, after a failure.
    std::string coordinators_id_;
    outcome mine_;
    std::vector<outcome> everybody_;
    std::vector<save_plan> plans_;
    save_plan local_;              ///< As this rank planned it.
    std::vector<std::byte> sent_;  ///< This rank's part of the global plan.
    save_plan plan_;               ///< As this rank writes it.
    std::vector<item_data> data_;  ///< For each item of `plan_`.
    std::span<const item_data> items_{};
    snapshot copies_;  ///< What `data_` refers to, in the background.
    std::vector<std::byte> hashes_;
    replica_table replicas_;
    metadata meta_;
    std::vector<rank_failure> failures_;
    phase_table phases_;
    save_report report_;
};

}  // namespace cairn::detail

#endif
