// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_THREAD_GROUP_HPP
#define CAIRN_COMM_THREAD_GROUP_HPP

#include <cairn/comm/concepts.hpp>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {

/// Threads of one process as ranks.
///
/// Each rank's thread has its own @ref member. A member that is destroyed while others still count
/// on it ends their exchanges with @ref errc::rank_failed: a rank that throws hangs nobody.
class thread_group {
    enum class kind { gather, scatter, broadcast, all_gather, barrier };
    struct call {
        bool here = false;
        kind what = kind::barrier;
        int root = 0;
        std::vector<message> in{};
        /// Called without the lock, with everybody's input or the failure.
        std::function<void(std::exception_ptr, const std::vector<call>&)> end{};
    };
    struct state {
        explicit state(int n) : calls(static_cast<std::size_t>(n)), gone(calls.size(), false) {}
        std::mutex m;
        std::condition_variable changed;
        std::vector<call> calls;
        std::vector<bool> gone;
        std::size_t arrived = 0;
        deadline by = no_deadline;
        std::exception_ptr poison;
        bool stop = false;
        std::thread timer;

        ~state() {
            {
                std::lock_guard const lock(m);
                stop = true;
            }
            changed.notify_all();
            if (timer.joinable()) {
                if (timer.get_id() == std::this_thread::get_id())
                    timer.detach();
                else
                    timer.join();
            }
        }
    };

public:
    /// One rank's end of the group. Movable; used by one thread at a time.
    class member {
    public:
        member(member&&) noexcept = default;
        member& operator=(member&&) noexcept = default;
        ~member() { leave(); }

        int rank() const noexcept { return rank_; }
        int size() const noexcept { return static_cast<int>(s_->calls.size()); }

        void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
            if (!valid_root(root, done)) return;
            bool const mine = rank_ == root;
            start(kind::gather, root, one(std::move(m)), d, std::move(done),
                  [mine](const std::vector<call>& all) {
                      std::vector<message> out;
                      if (mine)
                          for (auto const& c : all) out.push_back(c.in[0]);
                      return out;
                  });
        }
        void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
            if (!valid_root(root, done)) return;
            if (rank_ == root && ms.size() != s_->calls.size()) {
                return done.fail(std::make_exception_ptr(
                    error(errc::invalid_argument,
                          {.rank = rank_,
                           .expected = std::to_string(size()) + " messages, one per rank",
                           .found = std::to_string(ms.size())})));
            }
            start(kind::scatter, root, std::move(ms), d, std::move(done),
                  [me = static_cast<std::size_t>(rank_),
                   root = static_cast<std::size_t>(root)](const std::vector<call>& all) {
                      return all[root].in[me];
                  });
        }
        void broadcast(message m, int root, deadline d, completion<message> done) {
            if (!valid_root(root, done)) return;
            start(kind::broadcast, root, one(std::move(m)), d, std::move(done),
                  [root = static_cast<std::size_t>(root)](const std::vector<call>& all) {
                      return all[root].in[0];
                  });
        }
        void all_gather(message m, deadline d, completion<std::vector<message>> done) {
            start(kind::all_gather, 0, one(std::move(m)), d, std::move(done),
                  [](const std::vector<call>& all) {
                      std::vector<message> out;
                      for (auto const& c : all) out.push_back(c.in[0]);
                      return out;
                  });
        }
        void barrier(deadline d, completion<done_t> done) {
            start(kind::barrier, 0, {}, d, std::move(done),
                  [](const std::vector<call>&) { return done_t{}; });
        }

        /// Says that this rank takes part in no more exchanges.
        void leave() noexcept {
            if (!s_) return;
            auto const s = std::move(s_);
            std::unique_lock lock(s->m);
            s->gone[static_cast<std::size_t>(rank_)] = true;
            if (s->arrived != 0 && !s->poison)
                fail_all(*s, lock, make_gone(*s));
        }

    private:
        friend class thread_group;
        member(std::shared_ptr<state> s, int rank) : s_(std::move(s)), rank_(rank) {}

        static std::vector<message> one(message m) {
            std::vector<message> v;
            v.push_back(std::move(m));
            return v;
        }
        template <class T>
        bool valid_root(int root, completion<T>& done) const {
            if (root >= 0 && root < size()) return true;
            done.fail(std::make_exception_ptr(error(
                errc::invalid_argument, {.rank = rank_,
                                         .expected = "a root below " + std::to_string(size()),
                                         .found = std::to_string(root)})));
            return false;
        }

        template <class T, class Pick>
        void start(kind what, int root, std::vector<message> in, deadline d, completion<T> done,
                   Pick pick) {
            auto shared_done = std::make_shared<completion<T>>(std::move(done));
            auto end = [shared_done, pick](std::exception_ptr e, const std::vector<call>& all) {
                if (e)
                    shared_done->fail(e);
                else
                    (*shared_done)(pick(all));
            };
            auto const s = s_;  // a completion may end this member
            std::unique_lock lock(s->m);
            if (s->poison) {
                auto why = describe(s->poison);
                lock.unlock();
                return end(std::make_exception_ptr(
                               error(errc::poisoned, {.rank = rank_, .found = std::move(why),
                                                      .remedy = "make a new group"})),
                           {});
            }
            auto& mine = s->calls[static_cast<std::size_t>(rank_)];
            if (mine.here) {
                lock.unlock();
                return end(std::make_exception_ptr(
                               error(errc::invalid_argument,
                                     {.rank = rank_, .expected = "one exchange at a time",
                                      .found = "a second one"})),
                           {});
            }
            mine = {true, what, root, std::move(in), std::move(end)};
            ++s->arrived;
            for (auto const& c : s->calls) {
                if (!c.here || (c.what == what && (c.root == root))) continue;
                return fail_all(*s, lock,
                                error(errc::invalid_plan,
                                      {.rank = rank_,
                                       .expected = "all ranks to call the same exchange",
                                       .found = "different ones"}));
            }
            if (std::find(s->gone.begin(), s->gone.end(), true) != s->gone.end())
                return fail_all(*s, lock, make_gone(*s));
            if (s->arrived < s->calls.size()) {
                if (d != no_deadline) watch(s, d);
                return;
            }
            auto const all = std::exchange(s->calls, std::vector<call>(s->calls.size()));
            s->arrived = 0;
            s->by = no_deadline;
            lock.unlock();
            for (auto const& c : all) c.end(nullptr, all);
        }

        static std::string describe(const std::exception_ptr& e) {
            try {
                std::rethrow_exception(e);
            } catch (const std::exception& x) {
                return x.what();
            }
        }
        static error make_gone(const state& s) {
            std::string who;
            int first = -1;
            for (std::size_t r = 0; r < s.gone.size(); ++r) {
                if (!s.gone[r]) continue;
                if (first < 0) first = static_cast<int>(r);
                who += (who.empty() ? "rank " : ", rank ") + std::to_string(r);
            }
            return error(errc::rank_failed, {.rank = first, .found = who + " left the group"});
        }
        static void fail_all(state& s, std::unique_lock<std::mutex>& lock, const error& e) {
            auto const p = std::make_exception_ptr(e);
            s.poison = p;
            auto const all = std::exchange(s.calls, std::vector<call>(s.calls.size()));
            s.arrived = 0;
            s.by = no_deadline;
            lock.unlock();
            for (auto const& c : all)
                if (c.here) c.end(p, all);
        }
        /// Sees to it that the exchange under way ends at `d`. Called with the lock held.
        static void watch(const std::shared_ptr<state>& s, deadline d) {
            s->by = std::min(s->by, d);
            if (!s->timer.joinable()) {
                s->timer = std::thread([raw = s.get()] {
                    std::unique_lock lock(raw->m);
                    while (!raw->stop) {
                        if (raw->by == no_deadline) {
                            raw->changed.wait(lock);
                        } else if (std::chrono::steady_clock::now() < raw->by) {
                            raw->changed.wait_until(lock, deadline(raw->by));
                        } else {
                            std::string missing;
                            for (std::size_t r = 0; r < raw->calls.size(); ++r)
                                if (!raw->calls[r].here)
                                    missing += (missing.empty() ? "rank " : ", rank ") +
                                               std::to_string(r);
                            fail_all(
                                *raw, lock,
                                error(errc::timed_out, {.expected = "every rank in time",
                                                        .found = missing + " did not arrive"}));
                            lock.lock();
                        }
                    }
                });
            }
            s->changed.notify_all();
        }

        std::shared_ptr<state> s_;
        int rank_;
    };

    /// @pre `n >= 1`
    explicit thread_group(int n) : s_(std::make_shared<state>(n)) {}

    /// Rank `r`'s end. Call once per rank.
    member rank(int r) { return member(s_, r); }

private:
    std::shared_ptr<state> s_;
};
static_assert(Communicator<thread_group::member>);

/// Runs `f(member&)` on `n` threads, one per rank of a new group, and waits for all.
/// @throws the exception of the lowest rank that threw one of its own, if any did.
template <class F>
void run_ranks(int n, F&& f) {
    thread_group group(n);
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    std::vector<thread_group::member> members;
    for (int r = 0; r < n; ++r) members.push_back(group.rank(r));
    for (int r = 0; r < n; ++r) {
        threads.emplace_back([&f, &failure = failures[static_cast<std::size_t>(r)],
                              me = std::move(members[static_cast<std::size_t>(r)])]() mutable {
            try {
                f(me);
            } catch (...) {
                failure = std::current_exception();
            }
            me.leave();
        });
    }
    for (auto& t : threads) t.join();
    for (auto const& e : failures)
        if (e) std::rethrow_exception(e);
}

}  // namespace cairn

#endif
