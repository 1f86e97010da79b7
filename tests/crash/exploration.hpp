// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_EXPLORATION_HPP
#define CAIRN_TEST_CRASH_EXPLORATION_HPP

#include "choices.hpp"
#include "recording.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

namespace crash {

/// How much is looked at.
struct bounds {
    effort first{};                                 ///< At each point of the recording.
    effort again{.samples = 100, .deviations = 1};  ///< At each point of a recovery.
    std::size_t recoveries = 1'000'000;             ///< Of states that a later save can tell apart.
    std::size_t crashed_again = 1'000'000;          ///< Of these.
};

struct counts {
    std::uint64_t operations = 0, points = 0, states = 0, distinct = 0, kinds = 0, recoveries = 0,
                  crashed_again = 0, states_again = 0;
    counts& operator+=(const counts& c);
    std::string text() const;
};

/// Enumerates what a crash of all hosts can leave of a recording, at every point of it.
class exploration {
public:
    exploration(const recording& r, const bounds& b, std::uint64_t seed)
        : r_(r), bounds_(b), seed_(seed) {}

    /// @throws wrong naming the point and what was lost
    void run();
    /// At its end only.
    /// @param oldest, newest  The numbers of the checkpoints that may stand; -1: none.
    void run_at_end(int oldest, int newest);
    const counts& found() const { return counts_; }

private:
    void at_point(const disk& d, int promised, const std::string& point);
    void look_at(const image& left, int promised, const std::function<std::string()>& how);
    struct kind {
        image left;
        int standing;
        std::string how;  ///< It was reached.
    };
    void recover_some();
    void recover(const kind& k);
    void crash_recovery(const recording& recovery);

    const recording& r_;
    bounds bounds_;
    std::uint64_t seed_;
    int newest_ = 1'000'000;
    counts counts_{};
    std::unordered_set<std::uint64_t> seen_{};
    std::unordered_set<std::string> keys_{};
    std::vector<kind> kinds_{};
};

}  // namespace crash

#endif
