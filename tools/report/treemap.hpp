// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_TREEMAP_HPP
#define CAIRN_TOOLS_REPORT_TREEMAP_HPP

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace tool::page {

struct rectangle {
    double x = 0, y = 0, width = 0, height = 0;
    double area() const noexcept { return width * height; }
};

/// Splits a frame into rectangles whose areas are in the proportion of the weights and that are as
/// square as a greedy choice makes them (Bruls, Huizing and van Wijk, "Squarified treemaps", 2000).
/// @param weights  Finite and not negative, the largest first. A weight of 0 gets an empty
///                 rectangle.
/// @return A rectangle for each weight, in the same order.
inline std::vector<rectangle> squarify(std::span<const double> weights, rectangle frame) {
    std::vector<rectangle> out(weights.size(), rectangle{frame.x, frame.y, 0, 0});
    double left = 0;  // of the weights
    for (auto const w : weights) left += w;
    for (std::size_t first = 0; first < weights.size() && weights[first] > 0;) {
        double const side = std::min(frame.width, frame.height);
        if (side <= 0) break;
        double const scale = frame.area() / left;
        // A row along the shorter side grows while its least square rectangle becomes no less so.
        auto const worst = [&](double sum, double least) {
            double const thickness = sum * scale / side;
            double const longest = weights[first] * scale / thickness;
            double const shortest = least * scale / thickness;
            return std::max(longest / thickness, thickness / shortest);
        };
        double sum = weights[first];
        std::size_t end = first + 1;
        for (; end < weights.size() && weights[end] > 0; ++end) {
            if (worst(sum + weights[end], weights[end]) > worst(sum, weights[end - 1])) break;
            sum += weights[end];
        }
        bool const is_last = end == weights.size() || weights[end] <= 0;
        bool const upright = frame.width >= frame.height;  // the row is a column at the left
        double const thickness = is_last ? std::max(frame.width, frame.height) : sum * scale / side;
        double before = 0;
        for (auto i = first; i < end; ++i) {
            double const from = side * (before / sum);
            before += weights[i];
            double const to = side * (before / sum);
            out[i] = upright ? rectangle{frame.x, frame.y + from, thickness, to - from}
                             : rectangle{frame.x + from, frame.y, to - from, thickness};
        }
        (upright ? frame.x : frame.y) += thickness;
        auto& extent = upright ? frame.width : frame.height;
        extent = std::max(0.0, extent - thickness);
        left -= sum;
        first = end;
    }
    return out;
}

}  // namespace tool::page

#endif
