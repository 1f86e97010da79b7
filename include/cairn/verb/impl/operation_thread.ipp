// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_IMPL_OPERATION_THREAD_IPP
#define CAIRN_VERB_IMPL_OPERATION_THREAD_IPP

#include <cairn/verb/operation_thread.hpp>

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/context_gate.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/detail/posting_executor.hpp>
#include <cairn/error.hpp>
#include <cairn/verb/detail/own_context.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace cairn::detail {

inline std::atomic<std::chrono::milliseconds>& exit_timeout() {
    static std::atomic<std::chrono::milliseconds> t{std::chrono::seconds(60)};
    return t;
}

/// The threads of background operations.
class operation_threads {
public:
    static operation_threads& all() {
        static per_process<operation_threads> threads;
        static struct at_exit {
            ~at_exit() { threads.get().end(); }
        } const ends;
        return threads.get();
    }
    operation_threads() = default;
    operation_threads(operation_threads&&) = delete;

    /// Waits for all others, but not for longer than `exit_timeout`: a handler may call `exit`.
    void end() {
        std::unique_lock lock(m_);
        patient_deadline by(deadline_after(exit_timeout().load()));
        int const own = static_cast<int>(std::count_if(threads_.begin(), threads_.end(), is_this));
        while (running_ > own && !by.has_passed())
            ended_.wait_for(lock, std::min(exit_timeout().load(), std::chrono::milliseconds(100)));
        for (auto& t : threads_) {
            if (!t.state->load() && !is_this(t))
                std::fprintf(stderr, "cairn: exiting although %s is still running\n",
                             t.what.c_str());
        }
        auto last = std::exchange(threads_, {});
        lock.unlock();
        for (auto& t : last) t.state->load() ? t.thread.join() : t.thread.detach();
    }

    operation_context start(std::string what) {
        auto const io = std::make_shared<own_context>();
        auto const over = std::make_shared<std::atomic<bool>>(false);
        operation_context out{posting_executor(*io, io),
                              std::make_shared<work_guard>(io->get_executor())};
        std::lock_guard const lock(m_);
        join_ended();
        threads_.push_back({std::move(what), over, {}});
        try {
            blocked_signals const blocked;
            threads_.back().thread = std::thread([this, io, over] {
                io->run();
                std::lock_guard const done(m_);
                over->store(true);
                --running_;
                ended_.notify_all();
            });
        } catch (...) {
            threads_.pop_back();
            throw;
        }
        ++running_;
        return out;
    }

private:
    using work_guard = boost::asio::executor_work_guard<own_context::executor_type>;
    struct one {
        std::string what;
        std::shared_ptr<std::atomic<bool>> state;
        std::thread thread;
    };

    static bool is_this(const one& t) noexcept {
        return t.thread.get_id() == std::this_thread::get_id();
    }
    void join_ended() {
        threads_.remove_if([](one& t) {
            if (!t.state->load()) return false;
            t.thread.join();
            return true;
        });
    }

    std::mutex m_{};
    std::condition_variable ended_{};
    int running_ = 0;
    std::list<one> threads_{};
};

CAIRN_DECL operation_context new_operation_thread(std::string what) {
    return operation_threads::all().start(std::move(what));
}
CAIRN_DECL operation_context operation_on(boost::asio::any_io_executor on) {
    using guard = boost::asio::executor_work_guard<boost::asio::any_io_executor>;
    auto work = std::make_shared<kept_by_context<guard>>(gate_of(on), guard(on));
    return {until_context_ends(std::move(on)), std::move(work)};
}
CAIRN_DECL void destroy_elsewhere(std::shared_ptr<void> what) noexcept {
    try {
        auto const there =
            new_operation_thread("the end of an operation that its executor has dropped");
        boost::asio::post(there.executor, [w = std::move(what)]() mutable { w.reset(); });
    } catch (...) {  // no memory or no thread
    }
}
CAIRN_DECL std::exception_ptr executor_ended(const std::string& verb) noexcept {
    try {
        throw error(errc::abandoned,
                    {.found = "the executor of the " + verb + " has ended before the " + verb,
                     .remedy = "run the executor until all " + verb + "s are complete"});
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void set_exit_timeout(std::chrono::milliseconds t) noexcept {
    detail::exit_timeout() = t;
}

}  // namespace cairn

#endif
