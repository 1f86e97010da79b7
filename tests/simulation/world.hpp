// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_WORLD_HPP
#define CAIRN_TEST_SIMULATION_WORLD_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace simulation {

/// What a whole job takes from outside, in one thread: clocks, ids, and the order of events. Each
/// event happens on one rank.
class world {
public:
    using time = std::chrono::steady_clock::time_point;
    using duration = std::chrono::nanoseconds;
    using event = std::function<void()>;
    static constexpr int nobody = -1;

    world() = default;
    world(world&&) = delete;
    virtual ~world() = default;

    /// The rank's own clock.
    virtual time now(int rank) const = 0;
    virtual std::string new_id() = 0;

    /// Runs `f` on the rank's executor, in any order.
    virtual void post(int rank, event f) = 0;
    /// Runs `f` on a thread for the rank's files, beside its executor.
    virtual void post_job(int rank, event f) { post(rank, std::move(f)); }
    /// Runs `f` in the rank's engine, in the order of these calls.
    virtual void work(int rank, event f) = 0;
    /// Runs `f` on `to`, as a message on the link from `from`: a link keeps the order.
    virtual void deliver(int from, int to, event f) = 0;
    /// Runs `f` on `to`, which learns that another rank is gone: before or after its last messages.
    virtual void notice(int to, event f) = 0;
    /// Runs `f` when the rank's clock shows `t`.
    virtual void at(time t, int rank, event f) = 0;
    /// Nothing happens any more.
    virtual void drop_all() = 0;

    /// The rank's process ends: nothing of it happens any more.
    virtual void kill(int rank) { dead_.insert(rank); }
    bool dead(int rank) const { return dead_.count(rank) != 0; }
    /// The rank's executor ends, and drops what it has not run; its engine goes on.
    virtual void drop_executor(int rank) { dropped_.insert(rank); }
    bool dropped(int rank) const { return dropped_.count(rank) != 0; }

    class executor {
    public:
        executor(world& w, int rank, bool jobs) : w_(&w), rank_(rank), jobs_(jobs) {}
        boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
            return w_->context_;
        }
        static constexpr boost::asio::execution::blocking_t query(
            boost::asio::execution::blocking_t) noexcept {
            return boost::asio::execution::blocking.never;
        }
        executor require(boost::asio::execution::blocking_t::never_t) const { return *this; }
        template <class F>
        void execute(F f) const {
            auto const kept = std::make_shared<F>(std::move(f));
            auto call = [kept] { std::move (*kept)(); };
            jobs_ ? w_->post_job(rank_, std::move(call)) : w_->post(rank_, std::move(call));
        }
        friend bool operator==(const executor& a, const executor& b) noexcept {
            return a.w_ == b.w_ && a.rank_ == b.rank_ && a.jobs_ == b.jobs_;
        }
        friend bool operator!=(const executor& a, const executor& b) noexcept { return !(a == b); }

    private:
        world* w_;
        int rank_;
        bool jobs_;
    };
    executor of(int rank) { return {*this, rank, false}; }
    executor jobs_of(int rank) { return {*this, rank, true}; }

private:
    boost::asio::execution_context context_{};
    std::set<int> dead_{};
    std::set<int> dropped_{};
};

}  // namespace simulation

#endif
