// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_PARALLEL_HPP
#define CAIRN_DETAIL_PARALLEL_HPP

#include <cairn/detail/config.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>

namespace cairn::detail {

/// Calls `work` on the calling thread and on up to `threads - 1` others, which receive no signals,
/// and returns when all calls have ended: `work` takes jobs from a list that they share. If the
/// system provides fewer threads, fewer share the list.
/// @param work  Does not throw; called concurrently.
CAIRN_DECL void in_parallel(unsigned threads, const std::function<void()>& work) noexcept;

/// Calls `f(i)` for each `i` below `count` on up to `threads` threads, as `in_parallel` does. No
/// call begins after one has thrown.
/// @throws what the first of these threw
template <class F>
void for_each_in_parallel(std::size_t threads, std::size_t count, F&& f) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    in_parallel(static_cast<unsigned>(std::min(threads, count)), [&]() noexcept {
        try {
            for (auto i = next++; i < count && !failed; i = next++) f(i);
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
        }
    });
    if (failure) std::rethrow_exception(failure);
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/parallel.ipp>
#endif

#endif
