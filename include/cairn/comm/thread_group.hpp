// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_THREAD_GROUP_HPP
#define CAIRN_COMM_THREAD_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/tree/group.hpp>
#include <cairn/detail/config.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

class thread_engine;

}  // namespace detail

/// Threads of one process as ranks.
///
/// Each rank's thread has its own @ref member. A member that is destroyed while others still need
/// it ends their exchanges with @ref errc::rank_failed: a rank that throws does not leave the
/// others waiting. After any failed exchange the group is poisoned.
///
/// Completions are called on the thread that ends the exchange: the last rank to arrive, a rank
/// that leaves, or the group's timer, which starts with the first deadline. No lock is held.
class thread_group {
public:
    /// One rank's end of the group. Movable; used by one thread at a time.
    class member : public detail::tree_group<member> {
        using base = detail::tree_group<member>;

    public:
        /// Takes part in no more exchanges; one that is under way fails on all ranks.
        void leave() noexcept { base::leave(); }

    private:
        friend class thread_group;
        friend base;
        explicit member(detail::tree_seat s) : base(std::move(s)) {}
    };

    /// @throws error errc::invalid_argument unless `n >= 1`
    CAIRN_DECL explicit thread_group(int n);
    thread_group(thread_group&&) noexcept = default;
    thread_group& operator=(thread_group&&) = delete;
    /// Ranks that were never requested count as having left.
    CAIRN_DECL ~thread_group();

    /// Returns rank `r`'s member; there is one per rank. From any thread.
    /// @throws error errc::invalid_argument if it was taken, or `r` is not a rank of the group.
    CAIRN_DECL member rank(int r);

private:
    CAIRN_DECL member make(int r);

    std::vector<std::atomic<bool>> handed_out_{};
    std::shared_ptr<detail::thread_engine> first_;
};

namespace detail {

CAIRN_DECL void run_ranks(int n, const std::function<void(thread_group::member&)>& f);

}  // namespace detail

/// Runs `f(member&)` on `n` threads, one per rank of a new group, and waits for all.
/// @throws the exception of the lowest rank that failed on its own, not because another rank had;
/// if there is none, that of the lowest rank that threw.
template <class F>
void run_ranks(int n, F&& f) {
    detail::run_ranks(n, [&f](thread_group::member& me) { f(me); });
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/thread_group.ipp>
#endif

#endif
