// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace cairn::detail::s3 {

/// When one request is sent again after failures that may pass: after random pauses, which get
/// longer, until some time after the first failure.
class retries {
public:
    using clock = std::chrono::steady_clock;

    explicit retries(std::chrono::milliseconds patience) noexcept : patience_(patience) {}

    /// Called after each failure.
    /// @param asked  For so much more the server wants to be left alone.
    /// @return when to send it again; nothing if it is not worth it any more
    std::optional<clock::time_point> next(std::chrono::seconds asked = {}) {
        if (!dice_) dice_.emplace(std::random_device{}());
        auto const now = clock::now();
        if (!until_) until_ = now + patience_;
        auto const pause = std::uniform_int_distribution<std::int64_t>(0, most_.count())(*dice_);
        most_ = std::min(2 * most_, longest);
        auto const then = now + std::chrono::milliseconds(pause) + asked;
        if (then >= *until_) return {};
        return then;
    }

private:
    static constexpr std::chrono::milliseconds longest{5000};

    std::chrono::milliseconds patience_, most_{100};
    std::optional<clock::time_point> until_{};
    std::optional<std::minstd_rand> dice_{};
};

}  // namespace cairn::detail::s3

#endif
