// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SHARED_WINDOWS_HPP
#define CAIRN_STORAGE_DETAIL_SHARED_WINDOWS_HPP

#include <cairn/format/crc.hpp>
#include <cairn/tensor/view.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The windows of one stored chunk's items, which several threads fill, a slice each: they are
/// requested once, and complete when the last slice is.
class shared_windows {
public:
    explicit shared_windows(std::uint32_t slices) noexcept : slices_(slices) {}

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

    /// Takes the CRC-32 of a slice's bytes, once for each slice.
    /// @return That of all bytes, if it was the last slice.
    std::optional<std::uint32_t> add_crc(std::uint32_t slice, std::uint32_t crc, std::uint64_t n) {
        std::lock_guard const lock(m_);
        crcs_.emplace(slice, std::pair(crc, n));
        if (crcs_.size() != slices_) return {};
        std::uint32_t all = 0;
        for (auto const& [k, one] : crcs_) all = format::crc32_combine(all, one.first, one.second);
        return all;
    }

private:
    std::mutex m_{};
    std::uint32_t slices_;
    std::uint32_t left_ = slices_;
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>> crcs_{};
    bool resolved_ = false;
    std::vector<tensor_view> views_{};
};

}  // namespace cairn::detail

#endif
