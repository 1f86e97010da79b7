// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_STATISTICS_SECTION_HPP
#define CAIRN_TOOLS_REPORT_STATISTICS_SECTION_HPP

#include "../checkpoint_statistics.hpp"
#include "content.hpp"
#include "html.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tool::page {

/// Bins of a histogram in a report: as many as a small picture can show.
inline constexpr std::size_t drawn_bins = 48;

/// Whether all elements of a tensor are known to be finite.
inline bool is_all_finite(const stored_statistics& s) {
    return s.is_whole() && s.is_finite();
}

inline std::string draw(const histogram& h) {
    constexpr double width = 96, height = 22;
    std::uint64_t most = 1;
    for (auto const n : h.counts) most = std::max(most, n);
    double const step = width / static_cast<double>(std::max<std::size_t>(1, h.counts.size()));
    std::string path = "M0 22";
    for (std::size_t i = 0; i < h.counts.size(); ++i) {
        auto const n = static_cast<double>(h.counts[i]);
        auto const bar = n > 0 ? std::max(0.5, height * n / static_cast<double>(most)) : 0;
        path += "V" + px(height - bar) + "H" + px(step * static_cast<double>(i + 1));
    }
    return "<svg class=hist viewBox=\"0 0 96 22\" role=img aria-label=Histogram><path class=c0 "
           "d=\"" +
           path + "V22Z\"/></svg>";
}

/// The tensors with NaN or infinities and those that could not be read, or not all of them, then
/// the largest others.
/// @param unsupported  How many other tensors cannot be read.
inline void append_statistics(std::string& out, const content& c,
                              const std::vector<stored_statistics>& all, std::size_t unsupported) {
    constexpr std::size_t most = 100;
    struct row {
        const stored_statistics* of;
        const entry* what;
    };
    std::vector<row> rows;
    std::size_t unread = unsupported, partial = 0, not_finite = 0;
    auto e = c.entries.begin();  // both are in the order of their names
    for (auto const& one : all) {
        while (e->name != one.fqn) ++e;
        unread += !one.problem.empty();
        partial += one.problem.empty() && !one.is_whole();
        not_finite += one.problem.empty() && !one.is_finite();
        rows.push_back({&one, &*e});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const row& a, const row& b) {
        if (is_all_finite(*a.of) != is_all_finite(*b.of)) return !is_all_finite(*a.of);
        return a.what->bytes > b.what->bytes;
    });
    std::string said;
    auto const say = [&](const std::string& what) { said += (said.empty() ? "" : "; ") + what; };
    if (not_finite != 0) say("NaN or infinities in " + counted(not_finite, "tensor", "tensors"));
    if (unread != 0) say(counted(unread, "tensor", "tensors") + " could not be read");
    if (partial != 0)
        say("not all elements are stored of " + counted(partial, "tensor", "tensors"));
    out +=
        "<h2>Elements</h2><p class=" + std::string(said.empty() ? "good" : "bad") + "><b>" +
        (said.empty() ? "All finite" : said) +
        "</b></p><table class=\"names stats\"><thead><tr><th>Name<th>Histogram<th class=r>Min<th "
        "class=r>Max<th class=r>Mean<th class=r>Deviation<th class=r>Zeros<th class=r>NaN<th "
        "class=r>Inf</thead><tbody>";
    for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
        auto const& s = rows[i].of->found;
        out += "<tr><td class=m>" + shown_name(rows[i].of->fqn);
        if (rows[i].of->problem.empty() && !rows[i].of->is_whole())
            out +=
                " <span class=bad>(" + stored_part(*rows[i].of, *rows[i].what->tensor) + ")</span>";
        if (!rows[i].of->problem.empty()) {
            out += "<td colspan=8 class=bad>" + html(shortened(rows[i].of->problem, 600));
            continue;
        }
        bool const any = s.finite() != 0;
        auto const cell = [&](std::string_view label, const std::string& text, bool bad = false) {
            out += std::string("<td class=\"r") + (bad ? " bad" : "") + "\"><span class=l>" +
                   std::string(label) + " </span>" + text;
        };
        out += "<td>" + (any ? draw(s.bins) : "");
        cell("min", any ? table_number(*s.min) : "–");
        cell("max", any ? table_number(*s.max) : "–");
        cell("mean", any ? short_number(s.mean) : "–");
        cell("deviation", any ? short_number(s.deviation()) : "–");
        cell("zeros", percent(static_cast<double>(s.zeros), static_cast<double>(s.elements)));
        cell("NaN", grouped(s.nans), s.nans != 0);
        cell("Inf", grouped(s.infs), s.infs != 0);
    }
    out += "</tbody></table>";
    if (rows.size() > most)
        out += "<p class=s>The " + grouped(most) + " largest of " + grouped(rows.size()) +
               " tensors; any with NaN or infinities come first.</p>";
}

}  // namespace tool::page

#endif
