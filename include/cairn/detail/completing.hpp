// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_COMPLETING_HPP
#define CAIRN_DETAIL_COMPLETING_HPP

#include <cairn/detail/cxx20.hpp>

#include <utility>

namespace cairn::detail {

/// While one lives, this thread belongs to a part that calls complete on, and that joins it.
class completing {
public:
    completing() noexcept : outer_(std::exchange(on_this_thread(), true)) {}
    completing(completing&&) = delete;
    ~completing() { on_this_thread() = outer_; }
    static bool& on_this_thread() noexcept {
        thread_local bool b = false;
        return b;
    }

private:
    bool outer_;
};

}  // namespace cairn::detail

#endif
