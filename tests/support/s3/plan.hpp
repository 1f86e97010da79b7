// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_PLAN_HPP
#define CAIRN_TEST_SUPPORT_S3_PLAN_HPP

#include "support/s3/fault.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace s3_server {

/// Which requests fail, and how. One thread at a time.
class plan {
public:
    using predicate = std::function<bool(const request&)>;

    /// @param nth  Of the requests that the fault applies to and that `which` chooses, from 0;
    ///             empty: each.
    void add(fault f, predicate which, std::optional<std::size_t> nth) {
        scripted_.push_back({std::move(f), std::move(which), nth, 0});
    }
    /// To be called once for each request. If several faults are due, the first is what happens.
    std::optional<fault> due(const request& r) {
        std::optional<fault> f;
        for (auto& s : scripted_) {
            if (!s.what.applies_to(r.what()) || (s.which && !s.which(r))) continue;
            auto const n = s.seen++;
            if (f || (s.nth && *s.nth != n)) continue;
            f = s.what;
            ++happened_;
        }
        return f;
    }
    std::size_t happened() const { return happened_; }

private:
    struct scripted {
        fault what{};
        predicate which{};
        std::optional<std::size_t> nth{};
        std::size_t seen = 0;
    };
    std::vector<scripted> scripted_{};
    std::size_t happened_ = 0;
};

}  // namespace s3_server

#endif
