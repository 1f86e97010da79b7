// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SHARED_WINDOWS_HPP
#define CAIRN_STORAGE_DETAIL_SHARED_WINDOWS_HPP

#include <cairn/tensor/view.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace cairn::detail {

/// The windows of one stored chunk's items, which several threads fill, a slice each: they are
/// requested once, and complete when the last slice is.
class shared_windows {
public:
    explicit shared_windows(std::uint32_t slices) noexcept : left_(slices) {}

    /// @param resolve  Returns the windows; called the first time.
    template <class F>
    std::vector<tensor_view> get(F&& resolve) {
        std::lock_guard const lock(m_);
        if (!resolved_) {
            views_ = resolve();
            resolved_ = true;
        }
        return views_;
    }
    /// Returns whether that was the last slice. Called once for each complete slice.
    bool complete_one() noexcept {
        std::lock_guard const lock(m_);
        return --left_ == 0;
    }

private:
    std::mutex m_{};
    std::uint32_t left_;
    bool resolved_ = false;
    std::vector<tensor_view> views_{};
};

}  // namespace cairn::detail

#endif
