// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_BENCHMARKS_SPREAD_HPP
#define CAIRN_BENCHMARKS_SPREAD_HPP

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

/// Figures of several rounds, in the order in which they were measured.
struct spread {
    std::vector<double> all{};

    void add(double x) { all.push_back(x); }
    double median() const { return at(all.size() / 2); }
    double least() const { return at(0); }
    double most() const { return at(all.size() - 1); }
    /// Returns for each round this figure divided by the other one's.
    spread over(const spread& other) const {
        spread r;
        for (std::size_t i = 0; i < all.size(); ++i) r.add(all[i] / other.all[i]);
        return r;
    }
    /// Returns `[median, least, most]`.
    std::string json() const {
        char line[100];
        std::snprintf(line, sizeof line, "[%.4g, %.4g, %.4g]", median(), least(), most());
        return line;
    }
    /// Returns `median (least to most)`.
    std::string text() const {
        char line[100];
        std::snprintf(line, sizeof line, "%.4g (%.4g to %.4g)", median(), least(), most());
        return line;
    }

private:
    double at(std::size_t i) const {
        auto sorted = all;
        std::sort(sorted.begin(), sorted.end());
        return sorted[i];
    }
};

#endif
