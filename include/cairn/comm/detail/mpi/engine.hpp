// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_MPI_ENGINE_HPP
#define CAIRN_COMM_DETAIL_MPI_ENGINE_HPP

#include <cairn/comm/detail/mpi/mailbox.hpp>
#include <cairn/comm/detail/tree/engine.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>
#include <cairn/detail/own_thread.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace cairn::detail {

/// Carries the lanes of one rank over MPI, on a thread of its own that polls for frames and runs
/// until the last group that uses it has ended.
///
/// All calls of MPI run on that thread, except those that make and free the communicator.
class mpi_engine final : public tree_engine, public std::enable_shared_from_this<mpi_engine> {
public:
    using clock = std::chrono::steady_clock;

    mpi_engine(const mpi_agreement& a, MPI_Comm own, const liveness_options& o)
        : own_(own), lanes_(a.where, a.epoch, o, clock::now()), mail_(own, neighbours(a.where)) {}

    /// Local, not collective.
    void start() {
        watch_finalize();
        try {
            thread_.start([self = shared_from_this()] { self->serve(); });
        } catch (...) {
            silent_ = true;
            unwatch_finalize();
            throw;
        }
    }
    const tree_topology& where() const noexcept override { return lanes_.where(); }
    /// Runs `f` later, on the engine's thread.
    void run(work f) override {
        // Not `self`: a handler that never runs would keep the engine, and thus itself, alive.
        boost::asio::post(io_, [this, f = std::move(f)] {
            if (!silent_) take_mail();  // mail that arrived earlier is processed first
            f(lanes_, clock::now());
            delay_ = {};
        });
    }
    void attach() noexcept override { ++seats_; }
    /// Detaches a group; the last one ends the engine. MPI is not used afterwards, nor after
    /// MPI_Finalize.
    void detach() noexcept override {
        if (--seats_ > 0) return;
        bool const here = thread_.is_current();
        detached_ = true;
        tell_to_leave();
        thread_.end();
        // When called on the engine's thread, MPI_Finalize frees the communicator, once peers have
        // answered.
        if (!here && !freed()) unwatch_finalize();
    }

private:
    using duration = clock::duration;
    using kind = mpi_mailbox::mail::kind;
    static constexpr std::chrono::seconds close_timeout{1};

    static std::set<int> neighbours(const tree_topology& t) {
        auto const children = t.children();
        std::set<int> n(children.begin(), children.end());
        if (t.rank != 0) n.insert(t.parent());
        return n;
    }

    /// MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI still works.
    void watch_finalize() {
        auto const on_delete = [](MPI_Comm, int, void* value, void*) -> int {
            auto* const self = static_cast<std::shared_ptr<mpi_engine>*>(value);
            (*self)->wait_until_silent();
            (*self)->free();
            delete self;
            return MPI_SUCCESS;
        };
        mpi_check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key_, nullptr),
                  "MPI_Comm_create_keyval");
        auto value = std::make_unique<std::shared_ptr<mpi_engine>>(shared_from_this());
        mpi_check(MPI_Comm_set_attr(MPI_COMM_SELF, key_, value.get()), "MPI_Comm_set_attr");
        (void)value.release();
    }
    /// Removes the callback that `watch_finalize` installed.
    void unwatch_finalize() {
        auto key = key_;
        MPI_Comm_delete_attr(MPI_COMM_SELF, key);
        MPI_Comm_free_keyval(&key);
    }

    void serve() {
        while (!(silent_ && ending_)) {
            try {
                turn();
            } catch (const std::exception& e) {  // e.g. out of memory
                try {
                    lanes_.fail_all(error(errc::rank_failed, {.found = e.what()}), clock::now());
                } catch (...) {  // not even for that: the other ranks wait until their deadline
                }
            }
        }
    }
    /// The delay between two polls grows with the waiting time, by half each time, to at most a
    /// millisecond during a call.
    void turn() {
        if (io_.stopped()) io_.restart();
        ending_ = detached_;  // once per turn: work posted earlier runs in the last one
        if (told_to_leave_.exchange(false)) leave();
        if (silent_ && !ending_)
            io_.run_one();
        else if (!silent_ && delay_ > duration::zero())
            io_.run_one_for(delay_);
        io_.poll();
        if (silent_) {
            (void)lanes_.take_posts();
            return deliver();
        }
        bool const news = take_mail();
        bool const receiving = mail_.receiving() && !lanes_.broken();
        delay_ = news || receiving ? duration::zero() : longer(delay_);
        if (receiving) std::this_thread::yield();
        auto const now = clock::now();
        if (lanes_.wake() <= now) lanes_.tick(now);
        post_mail();
        if (leaving_ && ((mail_.parted() && mail_.idle()) || now >= leaving_by_)) fall_silent();
        deliver();
    }
    duration longer(duration d) const {
        using us = std::chrono::microseconds;
        // Long messages advance only during polls.
        bool const sending = !mail_.idle() && !lanes_.broken();
        auto const most = sending ? us(50) : lanes_.busy() || leaving_ ? us(1000) : us(10000);
        return std::min<duration>(most, std::max<duration>(us(5), d * 3 / 2));
    }
    bool take_mail() {
        auto news = mail_.poll();
        for (auto& m : news) {
            auto const now = clock::now();
            switch (m.is) {
                case kind::heard: lanes_.heard(m.from, now); break;
                case kind::moved: lanes_.moved(m.from, now); break;
                case kind::broken:
                    lanes_.lost(m.from, "rank " + std::to_string(m.from) + ": " + m.why, now);
                    break;
                case kind::frame: receive(m.from, std::move(m.frame), now); break;
            }
        }
        return !news.empty();
    }
    void receive(int from, tree_frame f, clock::time_point now) {
        if (f.what != tree_frame::type::close) return lanes_.received(from, std::move(f), now);
        lanes_.lost(from, "rank " + std::to_string(from) + ": it left", now);
        post_mail();
        mail_.answer_close(from);
    }
    void post_mail() {
        for (auto& p : lanes_.take_posts()) mail_.send(p.to, std::move(p.frame));
    }
    void deliver() {
        for (auto const& f : lanes_.take_ended()) f();
    }

    /// Wakes the thread, without a post, which may take memory.
    void tell_to_leave() {
        told_to_leave_ = true;
        io_.stop();
    }
    void leave() {
        if (leaving_ || silent_) return;
        leaving_ = true;
        leaving_by_ = clock::now() + close_timeout;
        delay_ = {};
        lanes_.leave_all(clock::now());
        post_mail();
        mail_.close_all();
    }
    void fall_silent() {
        clean_ = mail_.end();
        std::lock_guard const lock(m_);
        silent_ = true;
        fell_silent_.notify_all();
    }
    /// Returns once the thread no longer uses MPI.
    void wait_until_silent() {
        tell_to_leave();
        std::unique_lock lock(m_);
        fell_silent_.wait(lock, [this] { return silent_; });
    }
    void free() {
        std::lock_guard const lock(m_);
        if (std::exchange(freed_, true)) return;
        if (clean_) MPI_Comm_free(&own_);
    }
    bool freed() {
        std::lock_guard const lock(m_);
        return freed_;
    }

    MPI_Comm own_;
    int key_ = MPI_KEYVAL_INVALID;
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        io_.get_executor()};
    std::atomic<int> seats_{0};
    std::atomic<bool> detached_{false}, told_to_leave_{false};

    // Used by the thread only.
    tree_lanes lanes_;
    mpi_mailbox mail_;
    clock::time_point leaving_by_{};
    duration delay_{};
    bool leaving_ = false;
    bool ending_ = false;
    bool clean_ = false;

    std::mutex m_{};
    std::condition_variable fell_silent_{};
    bool silent_ = false;  ///< Written by the thread, under the lock.
    bool freed_ = false;
    own_thread thread_{};
};

}  // namespace cairn::detail

#endif
