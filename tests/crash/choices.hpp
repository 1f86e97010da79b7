// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_CHOICES_HPP
#define CAIRN_TEST_CRASH_CHOICES_HPP

#include "disk.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace crash {

/// How many of the states after a crash at one point are looked at.
struct effort {
    std::size_t all_up_to = std::size_t{1} << 12;  ///< If there are no more than that: each.
    std::size_t samples = 10'000;                  ///< Otherwise so many, and the following:
    int deviations = 2;                            ///< all but so many units old, or new.
};

/// Calls `f(versions)` for many choices of a version for each unit. `f` returns whether to go on.
template <class F>
bool for_each_choice(const disk::units& open, const effort& e, std::uint64_t seed, F&& f) {
    std::vector<std::size_t> oldest, newest;
    std::size_t product = 1;
    for (auto const& u : open) {
        oldest.push_back(u.lowest);
        newest.push_back(u.highest);
        if (product <= e.all_up_to) product *= u.highest - u.lowest + 1;
    }
    if (product <= e.all_up_to) {
        auto chosen = oldest;
        for (;;) {
            if (!f(chosen)) return false;
            std::size_t i = 0;
            while (i < chosen.size() && chosen[i] == newest[i]) chosen[i] = oldest[i], ++i;
            if (i == chosen.size()) return true;
            ++chosen[i];
        }
    }
    for (auto const* base : {&oldest, &newest}) {
        auto chosen = *base;
        if (!f(chosen)) return false;
        for (std::size_t i = 0; i < open.size() && e.deviations > 0; ++i)
            for (auto v = open[i].lowest; v <= open[i].highest; ++v) {
                if (v == (*base)[i]) continue;
                chosen[i] = v;
                if (!f(chosen)) return false;
                for (std::size_t k = 0; k < i && e.deviations > 1; ++k) {
                    for (auto w = open[k].lowest; w <= open[k].highest; ++w) {
                        if (w == (*base)[k]) continue;
                        chosen[k] = w;
                        if (!f(chosen)) return false;
                    }
                    chosen[k] = (*base)[k];
                }
                chosen[i] = (*base)[i];
            }
    }
    std::mt19937_64 random(seed);
    for (std::size_t s = 0; s < e.samples; ++s) {
        // Some samples keep most of it, others little.
        auto const bias = random() % 5;
        auto chosen = oldest;
        for (std::size_t i = 0; i < chosen.size(); ++i)
            chosen[i] = random() % 5 < bias ? newest[i]
                                            : oldest[i] + random() % (newest[i] - oldest[i] + 1);
        if (!f(chosen)) return false;
    }
    return true;
}

}  // namespace crash

#endif
