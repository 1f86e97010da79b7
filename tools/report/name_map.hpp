// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_NAME_MAP_HPP
#define CAIRN_TOOLS_REPORT_NAME_MAP_HPP

#include "treemap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tool::page {

/// A name with dots and what it weighs.
struct map_item {
    std::string_view name{};
    std::uint64_t bytes = 0;
};

/// A rectangle of a @ref name_map.
struct map_cell {
    enum class kind {
        item,     ///< One name.
        outline,  ///< Of a group whose members follow, as cells of their own.
        group,    ///< A group that is too small for its members to be shown.
        rest      ///< Members of one group that are each too small.
    } what = kind::item;
    rectangle at{};
    std::size_t depth = 0;     ///< Outlines around it.
    std::size_t item = 0;      ///< The first one.
    std::size_t count = 1;     ///< Items.
    std::string_view group{};  ///< Of a group and the rest: the names up to their common dot.
    std::string_view label{};  ///< What its name adds to that of the outline around it.
    double bytes = 0;          ///< Sums of tensors of 2^62 bytes overflow an integer.
};

/// Lays out names as nested rectangles, whose areas are the bytes at each level: names that share
/// what stands before a dot share a rectangle.
class name_map {
public:
    /// @param items  Sorted by name. They and their names outlive the cells.
    /// @param least  The area below which names are put together, so that the number of cells is
    ///               bounded by that of the frame.
    name_map(std::span<const map_item> items, double least) : items_(items), least_(least) {}

    std::vector<map_cell> cells(rectangle frame) const {
        std::vector<map_cell> out;
        auto const total = sum(0, items_.size());
        if (total > 0)
            place({frame, 0, items_.size(), shared(0, items_.size() - 1), 0, total}, out);
        return out;
    }

private:
    /// Names with more dots than these are not split further.
    static constexpr std::size_t most_depth = 24;
    /// A group of fewer times the least area is one cell.
    static constexpr double most_closed = 2;

    struct group {
        rectangle at;
        std::size_t begin, end;  ///< Of its items.
        std::size_t prefix;      ///< Length of what all names begin with, up to a dot.
        std::size_t depth;
        double bytes;
    };
    struct member {
        std::size_t begin, count;
        std::size_t prefix;  ///< As of a group; 0: one item, or the rest.
        double bytes;
        bool is_rest = false;
    };

    double sum(std::size_t begin, std::size_t end) const {
        double n = 0;
        for (; begin < end; ++begin) n += static_cast<double>(items_[begin].bytes);
        return n;
    }
    /// Returns the length of what the names of two items share, up to a dot; 0: nothing.
    std::size_t shared(std::size_t one, std::size_t other) const {
        auto const& a = items_[one].name;
        auto const& b = items_[other].name;
        auto const common =
            std::mismatch(a.begin(), a.begin() + std::ptrdiff_t(std::min(a.size(), b.size())),
                          b.begin())
                .first -
            a.begin();
        if (common == 0) return 0;
        auto const dot = a.rfind('.', static_cast<std::size_t>(common) - 1);
        return dot == std::string_view::npos ? 0 : dot + 1;
    }

    /// Names are sorted, so those with one prefix that ends in a dot stand together.
    std::vector<member> members_of(const group& g) const {
        std::vector<member> out;
        for (auto i = g.begin; i < g.end;) {
            auto const name = items_[i].name;
            auto const dot = g.depth < most_depth ? name.find('.', g.prefix) : name.npos;
            auto end = i + 1;
            if (dot != name.npos)
                while (end < g.end && items_[end].name.starts_with(name.substr(0, dot + 1))) ++end;
            out.push_back({i, end - i, end - i > 1 ? shared(i, end - 1) : 0, sum(i, end)});
            i = end;
        }
        return out;
    }
    /// Orders members by their numbers: layer 2 comes before layer 10.
    bool is_before(const member& a, const member& b, std::size_t prefix) const {
        auto const number = [&](const member& m) {
            auto const text = items_[m.begin].name.substr(prefix);
            return std::min(text.find_first_not_of("0123456789"), text.size());
        };
        return number(a) != number(b) ? number(a) < number(b) : a.begin < b.begin;
    }
    /// Puts the members together that are each too small.
    void join_small(std::vector<member>& all, double least_bytes) const {
        auto const small = std::stable_partition(
            all.begin(), all.end(), [&](const member& m) { return m.bytes >= least_bytes; });
        if (all.end() - small < 2) return;
        member rest{small->begin, 0, 0, 0, true};
        for (auto m = small; m != all.end(); ++m) {
            rest.count += m->count;
            rest.bytes += m->bytes;
        }
        all.erase(small, all.end());
        all.push_back(rest);
    }

    /// Recursive, at most `most_depth` deep.
    void place(const group& g, std::vector<map_cell>& out) const {
        auto all = members_of(g);
        join_small(all, least_ * g.bytes / g.at.area());
        std::stable_sort(all.begin(), all.end(), [&](const member& a, const member& b) {
            return a.bytes != b.bytes ? a.bytes > b.bytes : is_before(a, b, g.prefix);
        });
        std::vector<double> weights;
        for (auto const& m : all) weights.push_back(m.bytes);
        auto const where = squarify(weights, g.at);
        for (std::size_t i = 0; i < all.size() && all[i].bytes > 0; ++i) {
            auto const& m = all[i];
            auto const name = items_[m.begin].name;
            map_cell c;
            c.at = where[i];
            c.depth = g.depth;
            c.item = m.begin;
            c.count = m.count;
            c.bytes = m.bytes;
            if (m.is_rest) {
                c.what = map_cell::kind::rest;
                c.group = name.substr(0, g.prefix);
            } else if (m.prefix != 0) {
                bool const opens = c.at.area() >= most_closed * least_;
                c.what = opens ? map_cell::kind::outline : map_cell::kind::group;
                c.group = name.substr(0, m.prefix);
                c.label = name.substr(g.prefix, m.prefix - 1 - g.prefix);
            } else {
                c.label = name.substr(g.prefix);
            }
            out.push_back(c);
            if (c.what == map_cell::kind::outline)
                place({c.at, m.begin, m.begin + m.count, m.prefix, g.depth + 1, m.bytes}, out);
        }
    }

    std::span<const map_item> items_;
    double least_;
};

}  // namespace tool::page

#endif
