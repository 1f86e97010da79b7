// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_HEEDED_STOP_HPP
#define CAIRN_OBJECT_STORE_DETAIL_HEEDED_STOP_HPP

#include <cairn/detail/cxx20.hpp>

#include <stop_token>
#include <utility>

namespace cairn::detail {

/// While it lives, stores that wait for a network on this thread give up when a verb is cancelled:
/// their calls do not say for whom they are. Not for what commits or removes, whose outcome must be
/// known.
class heeded_stop {
public:
    explicit heeded_stop(std::stop_token stop) noexcept
        : stop_(std::move(stop)), before_(std::exchange(of_thread(), &stop_)) {}
    heeded_stop(heeded_stop&&) = delete;
    ~heeded_stop() { of_thread() = before_; }

    static bool is_requested() noexcept {
        auto const* const s = of_thread();
        return s != nullptr && s->stop_requested();
    }
    /// Returns that of this thread; one that never stops if there is none.
    static std::stop_token current() noexcept {
        auto const* const s = of_thread();
        return s != nullptr ? *s : std::stop_token();
    }

    /// Of a thread that goes on with another fiber. Returns what it heeded until now.
    static const std::stop_token* switch_to(const std::stop_token* other) noexcept {
        return std::exchange(of_thread(), other);
    }

private:
    static const std::stop_token*& of_thread() noexcept {
        thread_local const std::stop_token* s = nullptr;
        return s;
    }

    std::stop_token stop_;
    const std::stop_token* before_;
};

/// Returns `f` for other threads: each of its calls heeds what this thread does.
template <class F>
auto heeding(F f) {
    return [f = std::move(f), stop = heeded_stop::current()](auto&&... arguments) {
        heeded_stop const heeded(stop);
        return f(std::forward<decltype(arguments)>(arguments)...);
    };
}

}  // namespace cairn::detail

#endif
