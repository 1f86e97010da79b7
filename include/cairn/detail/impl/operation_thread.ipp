// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_OPERATION_THREAD_IPP
#define CAIRN_DETAIL_IMPL_OPERATION_THREAD_IPP

#include <cairn/detail/operation_thread.hpp>

#include <cairn/comm/deadline.hpp>
#include <cairn/detail/context_gate.hpp>
#include <cairn/detail/owning_executor.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
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
        static operation_threads threads;
        return threads;
    }
    operation_threads() { (void)exit_timeout(); }  // is destroyed after this
    operation_threads(operation_threads&&) = delete;
    ~operation_threads() {
        if (::getpid() != process_) {  // a child process has none of them
            for (auto& t : threads_) t.thread.detach();
            return;
        }
        std::unique_lock lock(state_->m);
        auto const by = deadline_after(exit_timeout().load());
        auto const all_ended = [&] { return state_->running == 0; };
        if (by == no_deadline)
            state_->ended.wait(lock, all_ended);
        else
            state_->ended.wait_until(lock, by, all_ended);
        for (auto& t : threads_) {
            if (!t.state->load())
                std::fprintf(stderr, "cairn: exits although %s is still running\n", t.what.c_str());
        }
        lock.unlock();
        for (auto& t : threads_) t.state->load() ? t.thread.join() : t.thread.detach();
    }

    operation_context start(std::string what) {
        auto const io = std::make_shared<boost::asio::io_context>(1);
        auto const over = std::make_shared<std::atomic<bool>>(false);
        operation_context out{owning_executor(io),
                              std::make_shared<work_guard>(io->get_executor())};
        std::lock_guard const lock(state_->m);
        join_ended();
        threads_.push_back({std::move(what), over, {}});
        try {
            threads_.back().thread = std::thread([io, over, state = state_] {
                io->run();
                std::lock_guard const done(state->m);
                over->store(true);
                --state->running;
                state->ended.notify_all();
            });
        } catch (...) {
            threads_.pop_back();
            throw;
        }
        ++state_->running;
        return out;
    }

private:
    using work_guard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
    struct shared {  // outlives this where a thread does
        std::mutex m{};
        std::condition_variable ended{};
        int running = 0;
    };
    struct one {
        std::string what;
        std::shared_ptr<std::atomic<bool>> state;
        std::thread thread;
    };

    void join_ended() {
        threads_.remove_if([](one& t) {
            if (!t.state->load()) return false;
            t.thread.join();
            return true;
        });
    }

    pid_t process_ = ::getpid();
    std::shared_ptr<shared> state_ = std::make_shared<shared>();
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
        auto const there = new_operation_thread("the end of what its executor has dropped");
        boost::asio::post(there.executor, [w = std::move(what)]() mutable { w.reset(); });
    } catch (...) {  // no memory or no thread
    }
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void set_exit_timeout(std::chrono::milliseconds t) noexcept {
    detail::exit_timeout() = t;
}

}  // namespace cairn

#endif
