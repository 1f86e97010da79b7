// SPDX-License-Identifier: Apache-2.0
// When requests are sent again, in simulated time; in place of cairn's own header.
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_RETRIES_HPP

#include "http.hpp"

#include <cairn/object_store/detail/s3/text.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace cairn::detail::s3 {

class retries {
public:
    /// The pauses have passed when `next` returns.
    using clock = std::chrono::steady_clock;

    explicit retries(std::chrono::milliseconds patience) : patience_(patience) {}
    std::optional<clock::time_point> next(const response& last = {}) {
        auto& c = *simulation::last_sender;
        auto const now = c.world.now(c.process);
        if (!std::exchange(begun_, true)) until_ = now + patience_;
        auto const most_asked = std::chrono::duration_cast<std::chrono::seconds>(patience_ / 4);
        std::chrono::seconds const asked(
            std::min<std::uint64_t>(number_in(last.header("retry-after")).value_or(0),
                                    static_cast<std::uint64_t>(most_asked.count())));
        auto const pause = std::chrono::milliseconds(
                               c.world.below(static_cast<std::uint64_t>(most_.count()) + 1)) +
                           asked;
        most_ = std::min(2 * most_, std::chrono::milliseconds(5000));
        if (now + pause >= until_) return {};
        c.pass(pause);
        return clock::time_point::min();
    }
    template <class Stopped>
    static bool sleep_until(clock::time_point, Stopped&&) {
        return true;
    }

private:
    std::chrono::milliseconds patience_, most_{100};
    bool begun_ = false;
    simulation::world::time until_{};
};

}  // namespace cairn::detail::s3

#endif
