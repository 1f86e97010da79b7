// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_JOINED_THREAD_HPP
#define CAIRN_DETAIL_JOINED_THREAD_HPP

#include <cairn/detail/cxx20.hpp>

#include <utility>

namespace cairn::detail {

/// While one lives, this thread is one that a part has started, and joins when it ends.
class joined_thread {
public:
    joined_thread() noexcept : outer_(std::exchange(flag(), true)) {}
    joined_thread(joined_thread&&) = delete;
    ~joined_thread() { flag() = outer_; }

    /// Whether it is the current thread: no part must end on it.
    static bool is_this() noexcept { return flag(); }

private:
    static bool& flag() noexcept {
        thread_local bool b = false;
        return b;
    }

    bool outer_;
};

}  // namespace cairn::detail

#endif
