// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_MPI_ENGINE_HPP
#define CAIRN_COMM_MPI_ENGINE_HPP

#include <cairn/comm/mpi/mailbox.hpp>
#include <cairn/comm/tree/calls.hpp>
#include <cairn/comm/tree/member.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank of a group over MPI: a `tree_member`, its frames, and the thread that polls for them.
///
/// All of MPI happens on that thread, but making the communicator and freeing it. Two ways to poll:
/// always, or (`serialized`) only while a call of this rank's is under way, so that no two threads
/// are in MPI at once as long as the caller waits for the call.
class mpi_engine : public std::enable_shared_from_this<mpi_engine> {
public:
    using clock = std::chrono::steady_clock;

    mpi_engine(const mpi_agreement& a, MPI_Comm own, group_patience patience, bool serialized)
        : at(a.where), own_(own), serialized_(serialized),
          decides_(a.where, a.epoch, serialized ? without_beats(patience) : patience,
                   clock::now()),
          mail_(own, peers(a.where, serialized), a.epoch) {}

    const tree_topology at;

    /// Local, not collective.
    void start() {
        watch_finalize();
        try {
            thread_ = std::thread([self = shared_from_this()] { self->run(); });
        } catch (...) {
            silent_ = true;
            unwatch_finalize();
            throw;
        }
    }

    void call(exchange_kind k, int root, std::vector<message> in, deadline d, tree_ended done) {
        boost::asio::post(io_, [this, k, root, in = std::move(in), d,
                                done = std::move(done)]() mutable {
            if (done_) return done(two_at_a_time(at.rank));
            if (!silent_) take_mail();  // what has long been said comes before this call
            done_ = std::move(done);
            by_ = d;
            decides_.start(k, root, std::move(in), d, clock::now());
            delay_ = {};
        });
    }
    void cancel() {
        boost::asio::post(io_, [this] {
            decides_.cancel();
            delay_ = {};
        });
    }
    void share(std::shared_ptr<const activity> a) {
        boost::asio::post(io_, [this, a = std::move(a)] { decides_.share(a); });
    }
    /// Ends the group and its thread. Nothing of MPI is used after it, nor after MPI_Finalize.
    void end() {
        bool const own_thread = thread_.get_id() == std::this_thread::get_id();
        boost::asio::post(io_, [this, speak = !own_thread || !serialized_] {
            if (speak) leave();
            ending_ = true;
        });
        // A completion may hold the last of the group: MPI_Finalize then frees the communicator,
        // and waits for the farewell where that would be beside the caller's own use of MPI.
        if (own_thread) return thread_.detach();
        thread_.join();
        if (!freed()) unwatch_finalize();
    }

private:
    using duration = clock::duration;
    static constexpr std::chrono::seconds farewell_{1};

    /// The neighbours in the tree. Where one of them may not be listening, and so does not pass on
    /// that the group is broken, all ranks: who finds that tells everybody.
    static std::set<int> peers(const tree_topology& t, bool all) {
        std::set<int> n;
        for (int c : t.children()) n.insert(c);
        if (t.rank != 0) n.insert(t.parent());
        for (int r = 0; all && r < t.size; ++r)
            if (r != t.rank) n.insert(r);
        return n;
    }
    /// Between its calls a rank hears and says nothing, however well it is.
    static group_patience without_beats(group_patience p) {
        p.beat = p.silence = std::chrono::hours(24 * 365 * 10);
        return p;
    }

    /// MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI still works.
    void watch_finalize() {
        auto const on_delete = [](MPI_Comm, int, void* value, void*) -> int {
            auto* const self = static_cast<std::shared_ptr<mpi_engine>*>(value);
            (*self)->fall_silent();
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
    /// The same, before.
    void unwatch_finalize() {
        auto key = key_;
        MPI_Comm_delete_attr(MPI_COMM_SELF, key);
        MPI_Comm_free_keyval(&key);
    }

    void run() {
        while (!(silent_ && ending_)) {
            try {
                turn();
            } catch (const std::exception&) {  // no memory, say
                decides_.cancel();
            }
        }
    }
    /// Between two looks nobody is kept waiting longer than for half as long again as it took until
    /// then, and at most a millisecond in a call. Between calls a rank only answers questions.
    void turn() {
        bool const asleep = silent_ || (serialized_ && !done_ && !leaving_);
        if (asleep)
            io_.run_one();
        else if (delay_ > duration::zero())
            io_.run_one_for(delay_);
        io_.poll();
        if (silent_) return deliver();
        if (serialized_ && !done_ && !leaving_) return;
        bool const news = take_mail();
        bool const receiving = mail_.receiving() && !decides_.broken();
        delay_ = news || receiving ? duration::zero() : longer(delay_);
        if (receiving) std::this_thread::yield();
        auto const now = clock::now();
        if (decides_.wake() <= now) decides_.tick(now);
        post_mail();
        if (leaving_ && ((mail_.parted() && mail_.idle()) || now >= leaving_by_)) stop_speaking();
        deliver();  // the last: from here on the caller may be in MPI
    }
    duration longer(duration d) const {
        using us = std::chrono::microseconds;
        // What is long moves on only while somebody looks.
        bool const sending = !mail_.idle() && !decides_.broken();
        auto const most = sending ? us(50) : done_ || leaving_ ? us(1000) : us(10000);
        return std::min<duration>(most, std::max<duration>(us(5), d * 3 / 2));
    }
    bool take_mail() {
        auto news = mail_.poll();
        for (auto& m : news) {
            auto const now = clock::now();
            if (!m.broken.empty()) {
                decides_.lost(m.from, "rank " + std::to_string(m.from) + ": " + m.broken);
            } else if (!m.whole) {
                decides_.heard(m.from, now);
            } else {
                receive(std::move(m), now);
            }
        }
        if (early_ && early_->frame.round <= decides_.round())
            receive(*std::exchange(early_, std::nullopt), clock::now());
        return !news.empty();
    }
    void receive(mpi_mailbox::mail m, clock::time_point now) {
        using enum tree_frame::type;
        auto const what = m.frame.what;
        if (what == abort && m.frame.round > decides_.round()) {
            // By the shorter way, before the result of the exchange that ended well.
            early_ = std::move(m);
            return;
        }
        told_all_ = told_all_ || what == abort;
        decides_.received(m.from, std::move(m.frame), now);
        post_mail();
        if (what == leave) mail_.goodbye(m.from);
    }
    void post_mail() {
        for (auto& p : decides_.take_posts()) {
            if (silent_) continue;
            if (serialized_ && p.frame->what == tree_frame::type::abort) tell_all(p);
            mail_.send(p.to, std::move(p.frame));
        }
    }
    void tell_all(const tree_member::post& p) {
        if (std::exchange(told_all_, true)) return;
        auto const neighbours = peers(at, false);
        for (int r : peers(at, true))
            if (neighbours.count(r) == 0) mail_.send(r, p.frame);
    }
    /// Ends the call under way if its outcome is there.
    void deliver() {
        auto const now = clock::now();
        if (!outcome_) {
            outcome_ = decides_.take_outcome();
            if (!outcome_) return;
            since_ = now;
        }
        // Where nobody polls after a call, what was sent in it must be out before. The others take
        // it, for they are in the call too, unless the group is broken.
        if (serialized_ && !silent_ && !mail_.idle()) {
            bool const broken = outcome_->failure || decides_.broken();
            if (broken ? now < since_ + farewell_ : now < by_) return;
        }
        auto o = std::move(*outcome_);
        outcome_.reset();
        if (auto const f = std::exchange(done_, nullptr)) f(std::move(o));
    }

    void leave() {
        if (leaving_) return;
        leaving_ = true;
        leaving_by_ = clock::now() + farewell_;
        delay_ = {};
        decides_.leave();
        post_mail();
        mail_.leave_all();
    }
    void stop_speaking() {
        clean_ = mail_.close();
        std::lock_guard const lock(m_);
        silent_ = true;
        fell_silent_.notify_all();
    }
    /// On return the thread does not use MPI any more.
    void fall_silent() {
        boost::asio::post(io_, [this] { leave(); });
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
    bool serialized_;
    int key_ = MPI_KEYVAL_INVALID;
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        io_.get_executor()};
    std::thread thread_{};

    // Of the thread alone.
    tree_member decides_;
    mpi_mailbox mail_;
    tree_ended done_{};
    deadline by_ = no_deadline;
    std::optional<tree_member::outcome> outcome_{};
    clock::time_point since_{};
    clock::time_point leaving_by_{};
    duration delay_{};
    bool leaving_ = false;
    bool ending_ = false;
    std::optional<mpi_mailbox::mail> early_{};
    bool told_all_ = false;  ///< Of the failure, by this rank or by whoever began.
    bool clean_ = false;

    std::mutex m_{};
    std::condition_variable fell_silent_{};
    bool silent_ = false;  ///< Written by the thread, under the lock.
    bool freed_ = false;
};

}  // namespace cairn::detail

#endif
