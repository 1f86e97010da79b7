// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_FORKS_IPP
#define CAIRN_DETAIL_IMPL_FORKS_IPP

#include <cairn/detail/forks.hpp>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// Everything that the handlers at fork use. Constant-initialised: a fork may happen at any time.
struct fork_state {
    static constexpr std::size_t most = std::size_t{1} << 20;  ///< Linux's usual hard limit.

    std::atomic<unsigned> forks{0};
    std::atomic<child_hook*> hooks{nullptr};
    std::atomic<int> changing{0};  ///< Threads that open or close a descriptor …
    std::atomic<int> forking{0};   ///< … and those that fork and wait for these.
    std::atomic<int> highest{-1};
    std::array<std::atomic<std::uint64_t>, most / 64> descriptors{};
};
inline constinit fork_state fork_states{};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline void before_fork() noexcept {
    auto& s = fork_states;
    ++s.forking;
    // A change that takes longer is blocked in a file system, or frees a large file: no child has
    // its descriptor yet, or any more. Or this is a signal handler that has interrupted it. A
    // shorter limit would not do: a busy machine may leave a thread that has just opened a
    // descriptor without a core for 20 ms.
    for (int ms = 0; s.changing != 0 && ms < 100; ++ms) ::poll(nullptr, 0, 1);
}
inline void after_fork() noexcept {
    --fork_states.forking;
}
inline void in_child_of_fork() noexcept {
    auto& s = fork_states;
    s.forking = 0;
    s.changing = 0;
    ++s.forks;
    auto const highest = s.highest.exchange(-1);
    for (int word = 0; word <= highest / 64 && highest >= 0; ++word) {
        auto open = s.descriptors[static_cast<std::size_t>(word)].exchange(0);
        for (int fd = 64 * word; open != 0; ++fd, open >>= 1)
            if ((open & 1) != 0) ::close(fd);
    }
    for (auto* h = s.hooks.load(); h != nullptr; h = h->next) h->run(h->with);
}
inline void see_forks() noexcept {
    [[maybe_unused]] static int const failed =
        ::pthread_atfork(before_fork, after_fork, in_child_of_fork);
}
/// At the latest before `main`: a fork that is under way does not call handlers that are added.
[[maybe_unused]] inline bool const forks_are_seen = (see_forks(), true);

CAIRN_DECL unsigned fork_count() noexcept {
    see_forks();
    return fork_states.forks.load(std::memory_order_relaxed);
}

CAIRN_DECL void add_child_hook(child_hook& h) noexcept {
    see_forks();
    h.next = fork_states.hooks.load();
    while (!fork_states.hooks.compare_exchange_weak(h.next, &h)) {
    }
}

CAIRN_DECL descriptor_change::descriptor_change() noexcept {
    see_forks();
    auto& s = fork_states;
    // A handler at fork of another library may wait for a lock that this thread has.
    int ms = 0;
    for (++s.changing; s.forking != 0 && ms < 1000; ++s.changing, ++ms) {
        --s.changing;
        ::poll(nullptr, 0, 1);
    }
}
CAIRN_DECL descriptor_change::~descriptor_change() {
    if (fork_states.changing > 0) --fork_states.changing;  // 0: in a child, forked by a handler
}

CAIRN_DECL void close_in_children(int fd, bool yes) noexcept {
    see_forks();
    auto& s = fork_states;
    if (fd < 0 || static_cast<std::size_t>(fd) >= s.most) return;
    auto& word = s.descriptors[static_cast<std::size_t>(fd) / 64];
    auto const bit = std::uint64_t{1} << (fd % 64);
    if (!yes) {
        word.fetch_and(~bit);
        return;
    }
    int highest = s.highest;
    while (highest < fd && !s.highest.compare_exchange_weak(highest, fd)) {
    }
    word.fetch_or(bit);
}

}  // namespace cairn::detail

#endif
