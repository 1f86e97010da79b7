// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_THREAD_GROUP_HPP
#define CAIRN_COMM_THREAD_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/thread/engine.hpp>
#include <cairn/comm/tree/group.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {

/// Threads of one process as ranks.
///
/// Each rank's thread has its own @ref member. A member that is destroyed while others still need
/// it ends their exchanges with @ref errc::rank_failed: a rank that throws does not leave the
/// others waiting. After any exchange that failed the group is poisoned.
///
/// Completions are called on the thread of whoever ended the exchange: the last rank to arrive, a
/// rank that leaves, or the group's timer, which exists once a deadline was used. No lock is held.
class thread_group {
public:
    /// One rank's end of the group. Movable; used by one thread at a time.
    class member : public detail::tree_group<member, detail::thread_engine> {
        using base = detail::tree_group<member, detail::thread_engine>;

    public:
        /// This rank takes part in no more exchanges; one that is under way fails on all.
        void leave() noexcept { base::leave(); }

    private:
        friend class thread_group;
        friend base;
        explicit member(detail::tree_seat<detail::thread_engine> s) : base(std::move(s)) {}
    };

    /// @throws error errc::invalid_argument unless `n >= 1`
    explicit thread_group(int n) {
        if (n < 1) throw no_rank("1 rank or more", n);
        handed_out_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(n));
        first_ = std::make_shared<detail::thread_engine>(n);
    }
    thread_group(thread_group&&) noexcept = default;
    thread_group& operator=(thread_group&&) = delete;
    /// Ranks that nobody asked for cannot arrive any more.
    ~thread_group() {
        for (std::size_t r = 0; first_ && r < handed_out_.size(); ++r) {
            if (handed_out_[r].exchange(true)) continue;
            try {
                make(static_cast<int>(r)).leave();
            } catch (const std::bad_alloc&) {  // then they are late
            }
        }
    }

    /// Rank `r`'s end; there is one of each. From any thread.
    /// @throws error errc::invalid_argument if it was taken, or there is no such rank.
    member rank(int r) {
        auto const n = static_cast<int>(handed_out_.size());
        if (r < 0 || r >= n) throw no_rank("a rank below " + std::to_string(n), r);
        if (handed_out_[static_cast<std::size_t>(r)].exchange(true))
            throw no_rank("a rank that was not taken before", r);
        return make(r);
    }

private:
    static error no_rank(std::string expected, int found) {
        return {errc::invalid_argument,
                {.expected = std::move(expected), .found = std::to_string(found)}};
    }

    member make(int r) {
        return member({std::make_shared<detail::thread_engine>(*first_, r),
                       detail::thread_ranks::first_lane});
    }

    std::vector<std::atomic<bool>> handed_out_{};
    std::shared_ptr<detail::thread_engine> first_;
};
static_assert(BackgroundCommunicator<thread_group::member>);

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
