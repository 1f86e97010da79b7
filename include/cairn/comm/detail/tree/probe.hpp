// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_PROBE_HPP
#define CAIRN_COMM_DETAIL_TREE_PROBE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/tree/missing_rank.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Determines which ranks have not called when a deadline has passed: from rank 0 down the tree,
/// each rank answers for all below it. One that does not answer in time is itself reported missing.
class tree_probe {
public:
    using time = std::chrono::steady_clock::time_point;

    bool on() const noexcept { return on_; }
    time until() const noexcept { return until_; }
    bool answered() const noexcept { return waiting_.empty(); }

    /// The exchange's timeout, as the first rank that reported stated it.
    std::chrono::milliseconds given{0};

    void begin(std::set<int> asked, std::vector<missing_rank> found, time until) {
        on_ = true;
        waiting_ = std::move(asked);
        found_ = std::move(found);
        until_ = until;
    }
    void wait_longer(std::chrono::milliseconds more) {
        if (on_) until_ = deadline_after(more, until_);
    }
    void answer(int from, std::vector<missing_rank> found) {
        if (!on_ || waiting_.erase(from) == 0) return;
        std::move(found.begin(), found.end(), std::back_inserter(found_));
    }
    /// @param unanswered  Makes a `missing_rank` for a rank that has not answered.
    template <class F>
    std::vector<missing_rank> end(F&& unanswered) {
        on_ = false;
        for (int r : std::exchange(waiting_, {})) found_.push_back(unanswered(r));
        std::sort(found_.begin(), found_.end(),
                  [](auto const& a, auto const& b) { return a.rank < b.rank; });
        return std::exchange(found_, {});
    }

private:
    bool on_ = false;
    std::set<int> waiting_{};
    std::vector<missing_rank> found_{};
    time until_{};
};

}  // namespace cairn::detail

#endif
