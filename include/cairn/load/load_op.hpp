// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_LOAD_OP_HPP
#define CAIRN_LOAD_LOAD_OP_HPP

#include <cairn/comm/exchange.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/detail/surroundings.hpp>
#include <cairn/load/load_fsm.hpp>
#include <cairn/load/load_parts.hpp>
#include <cairn/load/load_turns.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/read_once/plane_groups.hpp>
#include <cairn/load/read_once/shared_items.hpp>
#include <cairn/storage/concepts.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::detail {

/// One rank's part of one load: carries out the decisions of `load_fsm`, as `save_op` does those of
/// `save_fsm`.
class load_op : public std::enable_shared_from_this<load_op> {
public:
    using ended = std::function<void(std::exception_ptr, load_report)>;

    /// @param state  Kept until the end.
    /// @param then   Called once, as the last step, or when the executor drops the load.
    load_op(surroundings in, std::shared_ptr<flattened_or_error> state, checkpoint_id id,
            load_options options, load_parts parts, ended then);
    load_op(load_op&&) = delete;
    ~load_op();

    /// Starts the load on the executor.
    void start();
    /// Ends the load on all ranks with @ref errc::cancelled, at the next exchange; cuts a broadcast
    /// short. Any thread.
    void cancel() noexcept;

private:
    using step = load_fsm::step;
    using event = load_fsm::event;

    /// Runs steps until one waits.
    void run() noexcept;
    template <class F>
    void resume(F&& f) noexcept;
    /// @return How the step ended; nothing if it continues later.
    std::optional<event> perform(step s);
    template <class F>
    event worked(const char* phase, F&& f);
    template <class Start, class F>
    std::optional<event> works(const char* phase, Start start, F then);
    void heed_cancellation() const;
    void cut_broadcast() noexcept;
    template <class F>
    event exchanged(F&& f);
    template <class Start>
    std::optional<event> starts(Start start);
    /// The continuation of an exchange, whose result `f` reads: it returns the failures that all
    /// ranks now know. `next` turns the event of the exchange into that of the step.
    template <class T, class F>
    std::function<void(call_result<T>)> received(F f, event (load_op::*next)(event) = nullptr);

    std::vector<std::byte> local_plan();
    std::vector<std::byte> global_plan();
    void send_plans();
    std::optional<event> finish_plan();
    std::vector<rank_failure> agreed(const std::vector<outcome>& all);
    std::vector<std::byte> end_of_turn();
    std::vector<rank_failure> compare(const std::vector<outcome>& all);
    event what_next(event e);
    event moved_if_replaced(event e);
    event look();
    void restart();
    void finish();
    void end(std::exception_ptr e, load_report r) noexcept;
    void fail(std::exception_ptr e) noexcept;

    surroundings in_;
    std::shared_ptr<flattened_or_error> state_;
    checkpoint_id id_;
    load_options options_;
    load_parts parts_;
    ended then_;
    std::atomic<bool> cancelled_{false};
    phase_clock clock_;
    std::optional<exchange> ranks_;  ///< Until the end.
    metadata meta_{};
    std::optional<load_turns> turns_;
    load_fsm fsm_;
    plane_place place_{};
    outcome mine_{};
    std::vector<outcome> everybody_{};
    std::vector<load_plan> plans_{};
    std::vector<shared_plan> shared_plans_{};
    std::vector<std::byte> my_plan_{};
    load_plan plan_{};
    outcome looked_{};  ///< Whether the checkpoint was replaced; on the coordinator.
    bool cut_short_ = false;
    std::vector<rank_failure> failures_{};
    std::vector<phase_time> phases_{};
};

}  // namespace cairn::detail

#endif
