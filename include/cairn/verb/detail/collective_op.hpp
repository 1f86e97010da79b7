// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_COLLECTIVE_OP_HPP
#define CAIRN_VERB_DETAIL_COLLECTIVE_OP_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/verb/detail/exchange.hpp>
#include <cairn/verb/detail/part_call.hpp>
#include <cairn/verb/detail/phases.hpp>
#include <cairn/verb/detail/post_to.hpp>
#include <cairn/verb/detail/stored_handler.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank's share of an operation of all ranks: carries out the decisions of a state machine, one
/// asynchronous step per state. Steps run on the executor, one at a time; parts are called there
/// and nowhere else, and no step holds its thread while another rank or the storage is waited for.
///
/// `Op` derives from it and has
/// - `std::optional<event> perform(step)`: how the step ended; nothing if it continues later;
/// - `void begin()`: notifies the sinks, inside the call that starts the operation;
/// - `void finish()`: calls `end`, when the machine is done;
/// - `void release()`: releases everything that is the caller's;
/// - `error broken(const std::exception_ptr&)`: the error of an operation that cannot report this
///   failure to the others; may throw;
/// - `std::exception_ptr broken_without_memory()`: one that was made before, or null.
///
/// `Fsm` has `step`, with a last one `done`, `event`, with `cut_short`, `current`, `resume`, and
/// `static event event_of(const std::vector<rank_failure>&)`: that of known failures.
template <class Op, class Fsm, class Report>
class collective_op : public std::enable_shared_from_this<Op> {
public:
    using ended = std::function<void(std::exception_ptr, Report)>;

    collective_op(collective_op&&) = delete;

    /// Starts the operation on the executor.
    void start() {
        op().begin();
        resume_on<&collective_op::run>(in_.executor, this->shared_from_this());
    }

protected:
    using step = typename Fsm::step;
    using event = typename Fsm::event;

    /// @param sinks  Notified of the phases.
    /// @param then   Called once, as the last step.
    collective_op(surroundings in, erased_communicator& ranks, int coordinator,
                  std::chrono::milliseconds exchange_timeout, const erased_sinks& sinks, ended then)
        : in_(std::move(in)), clock_(sinks),
          ranks_(std::in_place, in_, ranks, coordinator, exchange_timeout, clock_.activity()),
          fsm_(ranks_->coordinator()), then_(std::move(then)) {}
    ~collective_op() = default;

    /// Ends a step that has waited: `f` returns how it ended.
    template <class F>
    void resume(F&& f) noexcept {
        if (!home_.is_this()) return;  // a timer or a job of a context that a child goes on with
        try {
            fsm_.resume(f());
        } catch (...) {
            return fail(std::current_exception());
        }
        run();
    }

    /// Runs a step of this rank alone: an exception, or that the operation was cancelled, is sent
    /// in the next exchange.
    template <class F>
    event worked(const char* phase, F&& f) {
        clock_.enter(phase);
        return ends_work(std::forward<F>(f), nullptr);
    }
    /// Does what `worked` does, for a step that `start(f)` starts and that ends by calling `f`.
    template <class Start, class F>
    std::optional<event> works(const char* phase, Start start, F then) {
        clock_.enter(phase);
        auto go_on = [self = this->shared_from_this(), then](std::exception_ptr e) {
            self->resume([&] { return self->ends_work(then, e); });
        };
        try {
            start(go_on);
        } catch (...) {
            go_on(std::current_exception());
        }
        return {};
    }

    /// Starts an exchange, which continues later; one that cannot be started is cut short.
    template <class Start>
    std::optional<event> starts(Start start) {
        try {
            start();
            return {};
        } catch (...) {
            return exchanged([]() -> std::vector<rank_failure> { throw; });
        }
    }
    /// The continuation of an exchange, whose result `f` reads: it returns the failures that all
    /// ranks now know. `next` turns the event of the exchange into that of the step.
    template <class T, class F>
    std::function<void(call_result<T>)> received(F f, event (Op::*next)(event) = nullptr) {
        return [self = this->shared_from_this(), f, next](call_result<T> r) {
            self->resume([&] {
                auto const e = self->exchanged([&] { return f(r.get()); });
                return next == nullptr ? e : ((*self).*next)(e);
            });
        };
    }
    template <class F>
    event exchanged(F&& f) {
        try {
            failures_ = f();
            return Fsm::event_of(failures_);
        } catch (...) {
            cut_short_ = true;
            // The known failures are more informative than the group's failure that they caused.
            failures_ = collect_failures(everybody_);
            if (failures_.empty()) failures_ = mine_.failures;
            failures_.push_back(failure_from(std::current_exception(), ranks_->rank()));
            // Possibly only this rank has failed, on a message that it received: the others must
            // not wait.
            ranks_->cancel();
            return event::cut_short;
        }
    }
    /// Sends this rank's outcome to the coordinator, which keeps those of all ranks. The others
    /// learn of failures from its next message.
    void gather_outcomes() {
        ranks_->gather(mine_, received<std::vector<outcome>>([this](std::vector<outcome> all) {
                           everybody_ = std::move(all);
                           return collect_failures(everybody_);
                       }));
    }

    /// Sends each rank its message from the coordinator, if no rank has failed.
    /// @param message_to  Called on the coordinator with the number of each rank.
    /// @param mine        Set to that of this rank.
    template <class F>
    void scatter_messages(F&& message_to, std::vector<std::byte>& mine) {
        std::vector<rank_failure> failures;
        std::vector<std::vector<std::byte>> messages;
        if (ranks_->coordinator()) {
            failures = collect_failures(everybody_);
            if (failures.empty()) failures = mine_.failures;
            for (std::size_t r = 0; failures.empty() && r < everybody_.size(); ++r)
                messages.push_back(message_to(r));
        }
        ranks_->scatter(failures, messages, received<outcome>([&mine](outcome told) {
                            mine = std::move(told.payload);
                            return told.failures;
                        }));
    }

    /// Whether an exchange has failed: the other ranks may be at another step.
    bool was_cut_short() const noexcept { return cut_short_; }
    bool cancelled() const noexcept { return stop_.stop_requested(); }
    void set_cancelled() noexcept { stop_.request_stop(); }
    void heed_cancellation() const {
        if (cancelled()) throw error(errc::cancelled, {.rank = ranks_->rank()});
    }

    /// Whether the end has not been reported yet. A forked child has nothing to report.
    bool running() const noexcept { return then_ != nullptr && home_.is_this(); }
    /// Reports the end. Nothing of the caller's is used afterwards.
    void end(std::exception_ptr e, Report r) noexcept {
        clock_.end(e);
        ranks_.reset();  // refers to a part
        op().release();
        try {
            std::exchange(then_, nullptr)(e, std::move(r));
        } catch (...) {  // no memory to call a handler
            print_unclaimed(std::current_exception());
            if (e) print_unclaimed(e);
        }
    }
    /// Ends an operation that cannot send a failure, for lack of memory or because the executor has
    /// dropped a step: the other ranks must not wait.
    void fail(std::exception_ptr e) noexcept {
        if (!running()) return;
        ranks_->cancel();
        try {
            e = std::make_exception_ptr(op().broken(e));
        } catch (...) {  // no memory for its text either
            if (auto const made = op().broken_without_memory()) e = made;
        }
        end(std::move(e), {});
    }

    surroundings in_;
    phase_clock clock_;
    std::optional<exchange> ranks_;  ///< Until the end.
    Fsm fsm_;
    outcome mine_{};
    std::vector<outcome> everybody_{};  ///< On the coordinator.
    std::vector<rank_failure> failures_{};
    std::stop_source stop_{};  ///< Stopped when this rank has cancelled the operation.

private:
    Op& op() noexcept { return static_cast<Op&>(*this); }

    /// Runs steps until one waits.
    void run() noexcept {
        if (!home_.is_this()) return;
        try {
            while (fsm_.current() != step::done) {
                auto const e = op().perform(fsm_.current());
                if (!e) return;
                fsm_.resume(*e);
            }
            op().finish();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    template <class F>
    event ends_work(F&& f, const std::exception_ptr& failed) {
        mine_ = attempt(ranks_->rank(), [&] {
            if (failed) std::rethrow_exception(failed);
            heed_cancellation();
            auto told = f();
            heed_cancellation();
            return told;
        });
        settle(mine_);
        clock_.stop();
        return Fsm::event_of(mine_.failures);
    }

    ended then_;
    bool cut_short_ = false;
    home_process home_{};
};

}  // namespace cairn::detail

#endif
