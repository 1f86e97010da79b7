// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_SIGNAL_WATCH_IPP
#define CAIRN_CHECKPOINTER_IMPL_SIGNAL_WATCH_IPP

#include <cairn/checkpointer/detail/signal_watch.hpp>

#include <cairn/detail/forks.hpp>
#include <cairn/error.hpp>

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

namespace cairn::detail {

inline constexpr int highest_signal = 64;

/// How often each signal has arrived while it was watched. The handler touches nothing else, but
/// for those that reach a forked child before the earlier handlers are restored there.
inline std::array<std::atomic<unsigned>, highest_signal + 1> signal_counts{};
inline std::array<std::atomic<bool>, highest_signal + 1> signals_of_child{};
inline std::atomic<::pid_t> counting_process{0};
static_assert(std::atomic<unsigned>::is_always_lock_free);

inline void count_signal(int s) noexcept {
    if (::getpid() != counting_process) {
        signals_of_child[static_cast<std::size_t>(s)] = true;
        return;
    }
    signal_counts[static_cast<std::size_t>(s)].fetch_add(1, std::memory_order_relaxed);
}

inline unsigned arrivals_of(int s) noexcept {
    return signal_counts[static_cast<std::size_t>(s)].load();
}

/// The watches of each signal in this process. A forked child watches none: a signal that ends the
/// program ends it.
class signal_handlers {
public:
    static signal_handlers& of_process() {
        static per_process<signal_handlers> all;
        return all.get();
    }
    /// @return How often the signal had arrived when it became the business of this watch: the
    /// first one also sees what the watches before it have not acknowledged.
    /// @throws error with the system's reason
    unsigned add(int s) {
        std::lock_guard const lock(m_);
        auto& h = handlers_[static_cast<std::size_t>(s)];
        // Counted first: what arrives once the handler is installed is new.
        auto known = arrivals_of(s);
        if (h.watchers == 0) {
            if (h.acknowledged)
                known = *h.acknowledged;
            else
                h.acknowledged = known;
            struct sigaction ours {};
            ours.sa_handler = count_signal;
            ours.sa_flags = SA_RESTART;
            ::sigemptyset(&ours.sa_mask);
            counting_process = ::getpid();
            bool const read = ::sigaction(s, nullptr, &h.before) == 0;
            h.may_be_ours = read;
            if (!read || ::sigaction(s, &ours, nullptr) != 0)
                throw error(errc::invalid_argument,
                            {.expected = "checkpointer_options::save_on_signal: signals that can "
                                         "be handled",
                             .found = "signal " + std::to_string(s)});
        }
        ++h.watchers;
        return known;
    }
    /// @param seen  How often it had arrived.
    void acknowledge(int s, unsigned seen) noexcept {
        std::lock_guard const lock(m_);
        auto& last = handlers_[static_cast<std::size_t>(s)].acknowledged;
        // Of several watches one may be behind: counts wrap around.
        if (last && static_cast<int>(seen - *last) > 0) last = seen;
    }
    void remove(int s) noexcept {
        std::lock_guard const lock(m_);
        auto& h = handlers_[static_cast<std::size_t>(s)];
        if (--h.watchers == 0) restore(s, h);
    }
    /// Async-signal-safe, whatever another thread was doing in the parent.
    void in_child() noexcept {
        for (int s = 1; s <= highest_signal; ++s) {
            auto const at = static_cast<std::size_t>(s);
            if (handlers_[at].may_be_ours) restore(s, handlers_[at]);
            if (signals_of_child[at].exchange(false)) ::raise(s);
        }
    }

private:
    struct handler {
        int watchers = 0;
        std::optional<unsigned> acknowledged{};  ///< The most of any watch, once there was one.
        std::atomic<bool> may_be_ours{false};    ///< Since `before` was known.
        struct sigaction before {};
    };
    static void restore(int s, handler& h) noexcept {
        struct sigaction now {};
        if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler == count_signal)
            ::sigaction(s, &h.before, nullptr);
        h.may_be_ours = false;
    }
    std::mutex m_{};
    std::array<handler, highest_signal + 1> handlers_{};
};

CAIRN_DECL std::vector<int> numbers_of(signal_set s) {
    std::vector<int> out;
    for (int n = 1; n <= highest_signal; ++n)
        if ((s >> (n - 1) & 1) != 0) out.push_back(n);
    return out;
}

CAIRN_DECL signal_watch::signal_watch(const std::vector<int>& signals) {
    watched_.reserve(signals.size());
    try {
        for (int s : signals) {
            if (s < 1 || s > highest_signal)
                throw error(errc::invalid_argument,
                            {.expected = "checkpointer_options::save_on_signal: signals from 1 to "
                                         "64, such as SIGTERM",
                             .found = std::to_string(s)});
            if (std::any_of(watched_.begin(), watched_.end(),
                            [s](const watched& w) { return w.signal == s; }))
                continue;
            auto const known = signal_handlers::of_process().add(s);
            watched_.push_back({s, known, known});
        }
    } catch (...) {
        for (auto const& w : watched_) signal_handlers::of_process().remove(w.signal);
        throw;
    }
}
CAIRN_DECL signal_watch::~signal_watch() {
    if (!home_.is_this()) return;
    for (auto const& w : watched_) signal_handlers::of_process().remove(w.signal);
}

CAIRN_DECL signal_set signal_watch::look() noexcept {
    signal_set arrived = 0;
    for (auto& w : watched_) {
        w.seen = arrivals_of(w.signal);
        if (w.seen != w.known) arrived |= signal_set{1} << (w.signal - 1);
    }
    return arrived;
}
CAIRN_DECL void signal_watch::acknowledge(signal_set these) noexcept {
    for (auto& w : watched_) {
        if ((these >> (w.signal - 1) & 1) == 0) continue;
        w.known = w.seen;
        signal_handlers::of_process().acknowledge(w.signal, w.seen);
    }
}

}  // namespace cairn::detail

#endif
