// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_PROBE_HPP
#define CAIRN_COMM_TREE_PROBE_HPP

#include <cairn/comm/tree/frame.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Who has not called, when a deadline has passed: asked from rank 0 down, each rank answering for
/// all below it. One who does not answer in time is named himself.
class inquiry {
public:
    using time = std::chrono::steady_clock::time_point;

    bool on() const noexcept { return on_; }
    time until() const noexcept { return until_; }
    bool answered() const noexcept { return waiting_.empty(); }

    /// How long the rank waited that was the first to say that it is late.
    std::chrono::milliseconds given{0};

    void begin(std::set<int> asked, std::vector<missing_rank> found, time until) {
        on_ = true;
        waiting_ = std::move(asked);
        found_ = std::move(found);
        until_ = until;
    }
    void answer(int from, std::vector<missing_rank> found) {
        if (!on_ || waiting_.erase(from) == 0) return;
        std::move(found.begin(), found.end(), std::back_inserter(found_));
    }
    /// Ends it; who has not answered is missing.
    std::vector<missing_rank> end() {
        on_ = false;
        for (int r : std::exchange(waiting_, {})) found_.push_back({.rank = r});
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

/// How much longer to wait for ranks that are missing but work on, each of which may be idle for
/// `given`; 0 if one of them is stuck or does not answer.
inline std::chrono::milliseconds worth_waiting(const std::vector<missing_rank>& missing,
                                               std::chrono::milliseconds given) {
    auto most = given;
    for (auto const& m : missing) {
        auto const idle = static_cast<std::uint64_t>(given.count());
        if (!m.answered || m.phase.empty() || m.idle >= idle) return {};
        most = std::min(most, given - std::chrono::milliseconds(m.idle));
    }
    return most;
}

/// "rank 1 did not arrive: in write for 12.3 s, rank 4 does not answer"
inline std::string describe(const std::vector<missing_rank>& missing) {
    constexpr std::size_t most = 8;
    std::string s;
    for (std::size_t i = 0; i < missing.size() && i < most; ++i) {
        auto const& m = missing[i];
        s += (s.empty() ? "rank " : ", rank ") + std::to_string(m.rank);
        s += m.answered ? " did not arrive" : " does not answer";
        if (!m.phase.empty()) {
            s += " (in " + m.phase + " for " + std::to_string(m.in / 1000) + "." +
                 std::to_string(m.in % 1000 / 100) + " s)";
        }
    }
    if (missing.size() > most) s += ", and " + std::to_string(missing.size() - most) + " more";
    return s;
}

/// What all ranks of the exchange get.
inline error too_late(const std::vector<missing_rank>& missing) {
    return {errc::timed_out,
            {.rank = missing.empty() ? -1 : missing[0].rank,
             .expected = "every rank in time",
             .found = describe(missing),
             .remedy = "make a new group"}};
}

}  // namespace cairn::detail

#endif
