// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_THREAD_GROUP_HPP
#define CAIRN_COMM_THREAD_GROUP_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/exchange_kind.hpp>
#include <cairn/comm/thread/meeting.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {

/// Threads of one process as ranks.
///
/// Each rank's thread has its own @ref member. A member that is destroyed while others still count
/// on it ends their exchanges with @ref errc::rank_failed: a rank that throws hangs nobody. After
/// any exchange that failed on all ranks the group is poisoned.
///
/// Completions are called on the thread of whoever ended the exchange: the last rank to arrive, a
/// rank that leaves, or the group's timer, which exists once a deadline was used. No lock is held.
class thread_group {
    using kind = detail::exchange_kind;
    using call = detail::thread_call;
    using meeting = detail::thread_meeting;
    using shared = detail::thread_shared;
    using guard = std::unique_lock<std::mutex>;

public:
    /// One rank's end of the group. Movable; used by one thread at a time.
    class member {
    public:
        member(member&&) noexcept = default;
        member& operator=(member&& other) noexcept {
            if (this != std::addressof(other)) {
                leave();
                s_ = std::move(other.s_);
                rank_ = other.rank_;
                size_ = other.size_;
            }
            return *this;
        }
        ~member() { leave(); }

        int rank() const noexcept { return rank_; }
        int size() const noexcept { return size_; }

        void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
            start(kind::gather, root, one(std::move(m)), d, std::move(done),
                  [mine = rank_ == root](const std::vector<call>& all) {
                      return mine ? everybodys(all) : std::vector<message>();
                  });
        }
        void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
            start(kind::scatter, root, std::move(ms), d, std::move(done),
                  [me = static_cast<std::size_t>(rank_),
                   from = static_cast<std::size_t>(root)](const std::vector<call>& all) {
                      return all[from].in[me];
                  });
        }
        void broadcast(message m, int root, deadline d, completion<message> done) {
            start(kind::broadcast, root, one(std::move(m)), d, std::move(done),
                  [from = static_cast<std::size_t>(root)](const std::vector<call>& all) {
                      return all[from].in[0];
                  });
        }
        void all_gather(message m, deadline d, completion<std::vector<message>> done) {
            start(kind::all_gather, 0, one(std::move(m)), d, std::move(done),
                  [](const std::vector<call>& all) { return everybodys(all); });
        }
        void barrier(deadline d, completion<done_t> done) {
            start(kind::barrier, 0, {}, d, std::move(done),
                  [](const std::vector<call>&) { return done_t{}; });
        }

        /// From any thread: the exchange under way, or the next one, fails on all ranks, and the
        /// group is of no more use.
        void cancel() noexcept {
            if (auto const s = s_) s->at->cancel(rank_);
        }
        /// What this rank is at, for those who wait for it.
        void share(std::shared_ptr<const activity> a) {
            if (!s_) return;
            std::lock_guard const lock(s_->at->m);
            s_->at->shown[static_cast<std::size_t>(rank_)] = std::move(a);
        }
        /// Says that this rank takes part in no more exchanges; one that is under way fails.
        void leave() noexcept {
            if (auto const s = std::move(s_)) s->at->leave(static_cast<std::size_t>(rank_));
        }

    private:
        friend class thread_group;
        member(std::shared_ptr<shared> s, int rank, int size)
            : s_(std::move(s)), rank_(rank), size_(size) {}

        static std::vector<message> one(message m) {
            std::vector<message> v;
            v.push_back(std::move(m));
            return v;
        }
        static std::vector<message> everybodys(const std::vector<call>& all) {
            std::vector<message> out;
            for (auto const& c : all) out.push_back(c.in[0]);
            return out;
        }
        template <class T>
        void refuse(completion<T>& done, errc code, const char* expected, std::string found,
                    std::string remedy = {}) const {
            done.fail(std::make_exception_ptr(error(code, {.rank = rank_,
                                                           .expected = expected,
                                                           .found = std::move(found),
                                                           .remedy = std::move(remedy)})));
        }

        /// @param pick   Makes this rank's result of everybody's calls.
        template <class T, class Pick>
        void start(kind what, int root, std::vector<message> in, deadline d, completion<T> done,
                   Pick pick) {
            auto const s = s_;  // a completion may end this member
            if (!s) return refuse(done, errc::invalid_argument, "a member", "one that has left");
            auto const wrong = detail::wrong_call(what, root, in.size(), rank_, size_);
            guard lock(s->at->m);
            auto& at = *s->at;
            if (at.poison) {
                auto why = *at.poison;
                auto const code =
                    std::exchange(at.cancelled, false) ? errc::cancelled : errc::poisoned;
                lock.unlock();
                if (wrong) return done.fail(std::make_exception_ptr(*wrong));
                return refuse(done, code, "", std::move(why), "make a new group");
            }
            auto& mine = at.calls[static_cast<std::size_t>(rank_)];
            if (mine.here) {
                lock.unlock();
                return refuse(done, errc::invalid_argument, "one exchange at a time", "two");
            }
            mine = {true, what, root, std::move(in), end_of(std::move(done), pick)};
            ++at.arrived;
            // The others wait for a call that cannot come, so it is everybody's failure.
            if (wrong) return at.fail(lock, *wrong);
            for (auto const& c : at.calls)
                if (c.here && (c.what != what || c.root != root))
                    return at.fail(lock, at.different_calls());
            if (at.anybody_left()) return at.fail(lock, at.somebody_left());
            if (at.arrived == at.calls.size()) return at.complete(lock);
            if (d != no_deadline) watch(s->at, lock, d);
        }

        template <class T, class Pick>
        static auto end_of(completion<T> done, Pick pick) {
            auto const to = std::make_shared<completion<T>>(std::move(done));
            return [to, pick](std::exception_ptr e, const std::vector<call>& all) {
                std::optional<T> result;
                try {
                    if (!e) result.emplace(pick(all));
                } catch (...) {  // no memory for the copy
                    e = std::current_exception();
                }
                if (e)
                    to->fail(std::move(e));
                else
                    (*to)(std::move(*result));
            };
        }

        /// Sees to it that the exchange under way ends at `d`.
        static void watch(const std::shared_ptr<meeting>& at, guard& lock, deadline d) {
            if (d < at->by) {
                at->by = d;
                at->given = std::chrono::ceil<std::chrono::milliseconds>(
                    std::max(d - std::chrono::steady_clock::now(),
                             std::chrono::steady_clock::duration(0)));
            }
            if (!at->timer.joinable()) {
                try {
                    at->timer = std::thread([at] { at->keep_deadlines(); });
                } catch (const std::system_error& e) {
                    return at->fail(lock, error(errc::io, {.expected = "a thread for deadlines",
                                                           .found = e.what()}));
                }
            }
            at->changed.notify_all();
        }

        std::shared_ptr<shared> s_;
        int rank_;
        int size_;
    };

    /// @throws error errc::invalid_argument unless `n >= 1`
    explicit thread_group(int n) {
        if (n < 1) throw no_rank("1 rank or more", n);
        handed_out_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(n));
        s_ = std::make_shared<shared>(n);
    }
    thread_group(thread_group&&) noexcept = default;
    thread_group& operator=(thread_group&&) = delete;
    /// Ranks that nobody asked for cannot arrive any more.
    ~thread_group() {
        for (std::size_t r = 0; s_ && r < handed_out_.size(); ++r)
            if (!handed_out_[r]) s_->at->leave(r);
    }

    /// Rank `r`'s end; there is one of each. From any thread.
    /// @throws error errc::invalid_argument if it was taken, or there is no such rank.
    member rank(int r) {
        auto const n = static_cast<int>(handed_out_.size());
        if (r < 0 || r >= n) throw no_rank("a rank below " + std::to_string(n), r);
        if (handed_out_[static_cast<std::size_t>(r)].exchange(true))
            throw no_rank("a rank that was not taken before", r);
        return member(s_, r, n);
    }

private:
    static error no_rank(std::string expected, int found) {
        return {errc::invalid_argument,
                {.expected = std::move(expected), .found = std::to_string(found)}};
    }

    std::vector<std::atomic<bool>> handed_out_{};
    std::shared_ptr<shared> s_;
};
static_assert(Communicator<thread_group::member>);

namespace detail {

/// Whether a rank failed only because another one did.
inline bool is_echo(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        return x.code() == make_error_code(errc::rank_failed) ||
               x.code() == make_error_code(errc::poisoned);
    } catch (...) {
        return false;
    }
}

}  // namespace detail

/// Runs `f(member&)` on `n` threads, one per rank of a new group, and waits for all.
/// @throws what the lowest rank threw among those that failed by themselves, not because another
/// rank had; what the lowest rank threw if there are none of those.
template <class F>
void run_ranks(int n, F&& f) {
    thread_group group(n);
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<thread_group::member> members;
    for (int r = 0; r < n; ++r) members.push_back(group.rank(r));
    std::vector<std::thread> threads;
    std::exception_ptr not_started;
    for (std::size_t r = 0; r < members.size() && !not_started; ++r) {
        try {
            threads.emplace_back(
                [&f, &failure = failures[r], me = std::move(members[r])]() mutable {
                    try {
                        f(me);
                    } catch (...) {
                        failure = std::current_exception();
                    }
                    me.leave();
                });
        } catch (...) {
            not_started = std::current_exception();
        }
    }
    members.clear();  // those that got no thread leave, so that the others do not wait for them
    for (auto& t : threads) t.join();
    if (not_started) std::rethrow_exception(not_started);
    std::exception_ptr first;
    for (auto const& e : failures)
        if (e && (!first || (detail::is_echo(first) && !detail::is_echo(e)))) first = e;
    if (first) std::rethrow_exception(first);
}

}  // namespace cairn

#endif
