// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_SHARE_SECTION_HPP
#define CAIRN_TOOLS_REPORT_SHARE_SECTION_HPP

#include "content.hpp"
#include "html.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tool::page {

/// A row of bars.
struct bar {
    std::string label{};  ///< HTML.
    std::size_t colour = 0;
    share of{};
};

/// Bars in their order; of more than `most` the largest, and a line about the others.
inline void append_bars(std::string& out, std::vector<bar> bars, std::string_view one,
                        std::string_view many) {
    constexpr std::size_t most = 32;
    std::uint64_t sum = 0, largest = 1;
    for (auto const& b : bars) {
        add(sum, b.of.bytes);
        largest = std::max(largest, b.of.bytes);
    }
    std::size_t others = 0;
    std::uint64_t other_bytes = 0;
    if (bars.size() > most) {
        std::stable_sort(bars.begin(), bars.end(),
                         [](const bar& a, const bar& b) { return a.of.bytes > b.of.bytes; });
        others = bars.size() - most;
        for (std::size_t i = most; i < bars.size(); ++i) add(other_bytes, bars[i].of.bytes);
        bars.resize(most);
    }
    out += "<table class=share><thead><tr><th>" + std::string(one) +
           "<th><th class=r>Bytes<th class=r>Share<th class=r>Items</thead><tbody>";
    for (auto const& b : bars) {
        auto const bytes = static_cast<double>(b.of.bytes);
        out += "<tr><td class=m>" + b.label + "<td><span class=bar><i class=" + colour(b.colour) +
               " style=\"width:" + fixed(100 * bytes / static_cast<double>(largest), 1) +
               "%\"></i></span><td class=r>" + short_bytes(bytes) + "<td class=r>" +
               percent(bytes, static_cast<double>(sum)) + "<td class=r>" + grouped(b.of.items);
    }
    out += "</tbody></table>";
    if (others != 0)
        out += "<p class=s>The largest of " + grouped(bars.size() + others) + ' ' +
               std::string(many) + "; the others have " +
               short_bytes(static_cast<double>(other_bytes)) + " together.</p>";
}

inline void append_shares(std::string& out, const content& c) {
    if (!c.ranks.empty()) {
        std::vector<bar> bars;
        for (auto const& [rank, s] : c.ranks)
            bars.push_back(
                {"rank " + std::to_string(rank), static_cast<std::size_t>(rank % colours), s});
        out += "<h2>Ranks</h2><p class=s>Bytes of the files that each rank wrote.</p>";
        append_bars(out, std::move(bars), "Rank", "ranks");
    }
    std::vector<bar> bars;
    for (auto const& [name, s] : c.files) {
        auto const rank = rank_of(name);
        auto const n = rank && !c.ranks.empty() ? *rank : bars.size();
        bars.push_back({shown_name(name), static_cast<std::size_t>(n % colours), s});
    }
    if (bars.empty()) return;
    out += "<h2>Files</h2><p class=s>Items are boxes of tensors, and values.</p>";
    append_bars(out, std::move(bars), "File", "files");
}

}  // namespace tool::page

#endif
