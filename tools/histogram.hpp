// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_HISTOGRAM_HPP
#define CAIRN_TOOLS_HISTOGRAM_HPP

#include "block_sums.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tool {

/// How many of the elements lie where, counted in one pass without knowing their range beforehand.
///
/// The width of all bins is one power of two, and bin k holds what lies from k times the width,
/// inclusive, to k + 1 times, exclusive. An element out of range adds bins; where that would be
/// more than `most_bins`, the width doubles and pairs of bins are joined. Histograms of parts can
/// therefore be merged, with the same result in any order: it depends on the smallest and largest
/// element and on `most_bins` alone, but for what rounding moves over an edge next to 0.
struct histogram {
    static constexpr std::size_t least_most_bins = 4;  ///< With fewer, a width would be infinite.
    static constexpr int least_exponent = -1022;       ///< Its reciprocal is finite.

    std::size_t most_bins = 0;  ///< 0: nothing is counted; otherwise at least `least_most_bins`.
    int exponent = least_exponent;  ///< Of the width, which only grows: 0 suits integers.
    std::int64_t first = 0;         ///< Number of the first bin in `counts`.
    std::vector<std::uint64_t> counts{};

    double width() const { return std::ldexp(1.0, exponent); }
    /// Returns where bin i of `counts` begins, and where the one before it ends. The least of all
    /// doubles, where it begins still below that.
    double edge(std::size_t i) const {
        return std::max(
            std::numeric_limits<double>::lowest(),
            std::ldexp(static_cast<double>(first + static_cast<std::int64_t>(i)), exponent));
    }

    /// @param x          Finite elements, of any alignment.
    /// @param low, high  The smallest and the largest of them.
    template <std::floating_point F>
    void add(const std::byte* x, std::size_t n, double low, double high) {
        if (most_bins == 0 || n == 0) return;
        extend(low, high);
        double const scale = std::ldexp(1.0, -exponent);
        auto const before = static_cast<double>(first);
        auto const last = counts.size() - 1;
        for (std::size_t i = 0; i < n; ++i) {
            auto const at = static_cast<double>(load<F>(x + i * sizeof(F))) * scale - before;
            ++counts[std::min(static_cast<std::size_t>(static_cast<std::int64_t>(at)), last)];
        }
    }
    void merge(const histogram& other) {
        if (other.counts.empty()) return;
        if (counts.empty()) {
            *this = other;
            return;
        }
        auto const end = other.first + static_cast<std::int64_t>(other.counts.size()) - 1;
        extend({other.exponent, other.first, end});
        for (std::size_t i = 0; i < other.counts.size(); ++i) {
            auto const bin =
                (other.first + static_cast<std::int64_t>(i)) >> shift(exponent - other.exponent);
            counts[static_cast<std::size_t>(bin - first)] += other.counts[i];
        }
    }

private:
    struct bins {
        int exponent;
        std::int64_t first, last;
    };
    /// Shifts by more are undefined, and have the same result.
    static int shift(int n) { return std::min(n, 63); }

    void extend(double low, double high) {
        // The finest width that may do: the numbers of bins are exact in a double.
        auto const largest = std::max(std::abs(low), std::abs(high));
        int fine =
            largest == 0 ? least_exponent : std::max(least_exponent, std::ilogb(largest) - 51);
        if (auto const half = high / 2 - low / 2; half > 0)
            fine = std::max(fine, std::ilogb(half / static_cast<double>(most_bins)) - 1);
        fine = std::max(fine, exponent);
        extend({fine, static_cast<std::int64_t>(std::floor(low * std::ldexp(1.0, -fine))),
                static_cast<std::int64_t>(std::floor(high * std::ldexp(1.0, -fine)))});
    }
    /// Makes the bins as wide as these, or wider, and adds those that are missing.
    void extend(bins to) {
        auto const coarser = [](bins b, int by) {
            return bins{b.exponent + by, b.first >> shift(by), b.last >> shift(by)};
        };
        if (!counts.empty()) {
            bins own{exponent, first, first + static_cast<std::int64_t>(counts.size()) - 1};
            auto const common = std::max(own.exponent, to.exponent);
            own = coarser(own, common - own.exponent);
            to = coarser(to, common - to.exponent);
            to = {common, std::min(own.first, to.first), std::max(own.last, to.last)};
        }
        while (to.last - to.first >= static_cast<std::int64_t>(most_bins)) to = coarser(to, 1);
        std::vector<std::uint64_t> joined(static_cast<std::size_t>(to.last - to.first + 1));
        for (std::size_t i = 0; i < counts.size(); ++i) {
            auto const bin =
                (first + static_cast<std::int64_t>(i)) >> shift(to.exponent - exponent);
            joined[static_cast<std::size_t>(bin - to.first)] += counts[i];
        }
        counts = std::move(joined);
        exponent = to.exponent;
        first = to.first;
    }
};

}  // namespace tool

#endif
