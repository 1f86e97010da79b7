// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_TABLE_HPP
#define CAIRN_TOOLS_TABLE_HPP

#include <cairn/printable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// Returns a number with six digits.
inline std::string short_number(double d) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", d);
    return text.data();
}

/// Lines whose columns are as wide as their widest cell, within reason.
class table {
public:
    using line = std::vector<std::string>;
    /// @param left  How many columns are aligned to the left; the others are to the right.
    explicit table(std::size_t left) : left_(left) {}
    void add(line l) { lines_.push_back(std::move(l)); }
    void print() const {
        constexpr std::size_t widest = 56;
        std::vector<std::size_t> widths;
        for (auto const& l : lines_)
            for (std::size_t i = 0; i < l.size(); ++i) {
                if (i == widths.size()) widths.push_back(0);
                if (is_text(l, i)) continue;
                if (auto const n = cairn::terminal_columns(l[i]); n <= widest)
                    widths[i] = std::max(widths[i], n);
            }
        for (auto const& l : lines_) {
            std::string text;
            for (std::size_t i = 0; i < l.size(); ++i) {
                auto const n = cairn::terminal_columns(l[i]);
                std::string const space(widths[i] > n && !is_text(l, i) ? widths[i] - n : 0, ' ');
                text += (i == 0 ? "" : "  ") + (i < left_ ? l[i] + space : space + l[i]);
            }
            std::cout << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
        }
    }

private:
    /// Whether a cell stands for the rest of its line, and is no column's.
    bool is_text(const line& l, std::size_t i) const { return i == left_ && l.size() == left_ + 1; }

    std::size_t left_;
    std::vector<line> lines_{};
};

}  // namespace tool

#endif
