// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP

#include <cairn/detail/cxx20.hpp>
#include <cairn/object_store/detail/s3/request.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>

namespace cairn::detail::s3 {

/// When one request is sent again after failures that may pass: after random pauses, which get
/// longer, until some time after the first failure.
class retries {
public:
    using clock = std::chrono::steady_clock;

    explicit retries(std::chrono::milliseconds patience) noexcept : patience_(patience) {}

    /// Called after each failure.
    /// @param last  Its answer may ask for a longer pause: at most a quarter of the patience is
    ///              added.
    /// @return when to send it again; nothing if it is not worth it any more
    std::optional<clock::time_point> next(const response& last = {}) {
        // Shortened, where it would leave no time for other tries: MinIO asks for 60 s and more.
        auto const most_asked = std::chrono::duration_cast<std::chrono::seconds>(patience_ / 4);
        std::chrono::seconds const asked(
            std::min<std::uint64_t>(number_in(last.header("retry-after")).value_or(0),
                                    static_cast<std::uint64_t>(most_asked.count())));
        if (!dice_) dice_.emplace(std::random_device{}());
        auto const now = clock::now();
        if (!until_) until_ = now + patience_;
        auto const pause = std::uniform_int_distribution<std::int64_t>(0, most_.count())(*dice_);
        most_ = std::min(2 * most_, longest);
        auto const then = now + std::chrono::milliseconds(pause) + asked;
        if (then >= *until_) return {};
        return then;
    }

    /// Sleeps until then, in pieces.
    /// @return false: `is_stopped` returned true before
    template <class Stopped>
    static bool sleep_until(clock::time_point then, Stopped&& is_stopped) {
        constexpr std::chrono::milliseconds piece{20};
        for (auto now = clock::now(); now < then; now = clock::now()) {
            if (is_stopped()) return false;
            std::this_thread::sleep_for(std::min<clock::duration>(then - now, piece));
        }
        return true;
    }

private:
    static constexpr std::chrono::milliseconds longest{5000};

    std::chrono::milliseconds patience_, most_{100};
    std::optional<clock::time_point> until_{};
    std::optional<std::minstd_rand> dice_{};
};

}  // namespace cairn::detail::s3

#endif
