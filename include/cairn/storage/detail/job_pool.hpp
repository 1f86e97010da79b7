// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_JOB_POOL_HPP
#define CAIRN_STORAGE_DETAIL_JOB_POOL_HPP

#include <cairn/detail/context_gate.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/detail/own_thread.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace cairn::detail {

/// Threads that run posted functions. Fewer than requested if the system creates no more.
/// (boost::asio::thread_pool would never return then: it joins the threads it has before it
/// throws.)
class worker_threads {
public:
    /// @throws std::system_error if not one thread can be made
    explicit worker_threads(std::size_t count) { grow(count); }
    worker_threads(worker_threads&&) = delete;
    /// Destroys functions that have not begun to run. If it is called on one of the threads, which
    /// can happen if there is no memory to continue elsewhere, that thread is not waited for, and
    /// destroys the remaining ones later.
    ~worker_threads() { context_->stop(); }
    /// Not thread-safe.
    /// @throws as the constructor, which makes so many
    void grow(std::size_t count) {
        try {
            while (threads_.size() < count)
                threads_.emplace_back().start([c = context_] { c->run(); });
        } catch (...) {
            if (!threads_.empty() && !threads_.back().started()) threads_.pop_back();
            if (threads_.empty()) throw;
        }
    }
    auto executor() noexcept { return context_->get_executor(); }

private:
    // A thread that is not waited for is still inside it.
    std::shared_ptr<boost::asio::io_context> context_ = std::make_shared<boost::asio::io_context>();
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        context_->get_executor()};
    std::deque<own_thread> threads_{};  // end first
};

/// Where a writer or reader runs its jobs, each of which handles a file or a part of one and waits
/// for no other job: threads of its own, made at first use, or the caller's executor.
class job_pool {
public:
    /// @param threads  At least one is made.
    explicit job_pool(int threads, boost::asio::any_io_executor on = {})
        : size_(static_cast<std::size_t>(std::max(1, threads))),
          on_(on ? until_context_ends(std::move(on)) : std::move(on)) {}
    job_pool(job_pool&&) = delete;
    ~job_pool() { forget_parents(); }

    /// Sets the number of threads for later runs; existing threads stay.
    void set_size(int threads) { size_ = static_cast<std::size_t>(std::max(1, threads)); }
    /// Returns how many jobs of one file are useful: 1 on an executor, because it may be shared.
    std::size_t jobs_per_file() const noexcept { return on_ ? 1 : size_; }

    /// Runs `job(i, failed)` for each i below `count`, concurrently, and calls `end(failure)` when
    /// all have ended, with the first exception or null, on the thread of the last of them or on
    /// this one. After a failure those that have not begun are left out; `failed()` tells the
    /// others of it. If the executor destroys a job instead of running it, `end` is destroyed
    /// uncalled.
    ///
    /// @param end   Must not throw.
    /// @param here  On the calling thread, one after the other.
    /// @throws std::bad_alloc if nothing has begun
    template <class Job, class End>
    void run(std::size_t count, Job job, End end, bool here = false) {
        auto const all = std::make_shared<running<Job, End>>(count, std::move(job), std::move(end));
        for (std::size_t i = 0; i < count; ++i) {
            if (here) {
                all->run(i);
                continue;
            }
            try {
                post([all, i] { all->run(i); });
            } catch (...) {  // it may have been posted nevertheless
                all->fail(std::current_exception());
            }
        }
    }

private:
    /// State shared by the jobs; the last reference, of a job or of run(), destroys it.
    template <class Job, class End>
    class running {
    public:
        running(std::size_t count, Job job, End end)
            : left_(count), job_(std::move(job)), end_(std::move(end)) {}
        running(running&&) = delete;
        ~running() {
            if ((left_ == 0 || failure_) && home_.is_this()) end_(std::move(failure_));
        }
        void run(std::size_t i) {
            try {
                if (!failed()) job_(i, [this] { return failed(); });
            } catch (...) {
                fail(std::current_exception());
            }
            std::lock_guard const lock(m_);
            --left_;
        }
        void fail(std::exception_ptr e) {
            std::lock_guard const lock(m_);
            if (!failure_) failure_ = std::move(e);
        }

    private:
        bool failed() {
            std::lock_guard const lock(m_);
            return failure_ != nullptr;
        }

        std::mutex m_{};
        std::size_t left_;  ///< Jobs that have not run.
        std::exception_ptr failure_{};
        Job job_;
        End end_;
        home_process home_{};
    };

    template <class F>
    void post(F f) {
        if (on_)
            return boost::asio::post(on_, [home = home_process(), f = std::move(f)]() mutable {
                if (home.is_this()) f();
            });
        forget_parents();
        if (!threads_)
            threads_ = std::make_unique<worker_threads>(size_);
        else
            threads_->grow(size_);
        boost::asio::post(threads_->executor(), std::move(f));
    }

    /// A forked child has none of these threads, and one of them may have had their lock.
    void forget_parents() noexcept {
        if (home_.is_this()) return;
        (void)threads_.release();
        home_ = {};
    }

    std::size_t size_;
    boost::asio::any_io_executor on_;
    home_process home_{};
    std::unique_ptr<worker_threads> threads_{};
};

}  // namespace cairn::detail

#endif
