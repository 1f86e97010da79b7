// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_PATIENT_DEADLINE_HPP
#define CAIRN_COMM_DETAIL_PATIENT_DEADLINE_HPP

#include <cairn/comm/deadline.hpp>

#include <chrono>
#include <utility>

namespace cairn::detail {

/// A deadline for a loop that checks many times per second whether it has passed. The time for
/// which this process was stopped (a suspended job, a paused machine) does not count: at most one
/// second counts between two checks.
class patient_deadline {
public:
    explicit patient_deadline(deadline by = no_deadline,
                              deadline now = std::chrono::steady_clock::now()) noexcept
        : by_(by), asked_(now) {}

    bool has_passed(deadline now = std::chrono::steady_clock::now()) noexcept {
        using std::chrono::ceil, std::chrono::milliseconds;
        auto const uncounted = now - std::exchange(asked_, now) - std::chrono::seconds(1);
        if (uncounted.count() > 0) by_ = deadline_after(ceil<milliseconds>(uncounted), by_);
        return now >= by_;
    }

private:
    deadline by_;
    deadline asked_;
};

}  // namespace cairn::detail

#endif
