// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_TIMELINE_SECTION_HPP
#define CAIRN_TOOLS_REPORT_TIMELINE_SECTION_HPP

#include "html.hpp"
#include "trace.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tool::page {

/// One verb on all its ranks, and what is drawn of it.
class timeline {
public:
    /// Chooses the last save of the checkpoint; if there is none, the last save of another one, or
    /// the last verb.
    timeline(const trace_reader& trace, const std::string& checkpoint) {
        auto const name = last_name(checkpoint);
        const traced_verb* chosen = nullptr;
        int best = -1;
        for (auto const& v : trace.verbs()) {
            bool const save = v.verb == "save" || v.verb == "async_save";
            int const fit = save ? (last_name(v.checkpoint) == name ? 2 : 1) : 0;
            if (fit >= best) {
                best = fit;
                chosen = &v;
            }
        }
        is_of_checkpoint = best == 2;
        std::map<std::uint64_t, const traced_verb*> last;
        for (auto const& v : trace.verbs())
            if (v.verb == chosen->verb && v.checkpoint == chosen->checkpoint) last[v.rank] = &v;
        begin = std::numeric_limits<double>::max();
        for (auto const& [rank, v] : last) {
            ranks.push_back(v);
            begin = std::min(begin, v->begin);
            end = std::max(end, v->end);
            for (auto const& p : v->phases)
                if (std::find(phases.begin(), phases.end(), p.name) == phases.end() &&
                    phases.size() < most_phases)
                    phases.push_back(p.name);
        }
        seconds = std::max(1e-6, end - begin);
        if (ranks.size() <= most_ranks) return;
        std::stable_sort(ranks.begin(), ranks.end(), [](auto const* a, auto const* b) {
            return a->end - a->begin > b->end - b->begin;
        });
        left_out = ranks.size() - most_ranks;
        ranks.resize(most_ranks);
    }

    std::string draw(std::string_view screen, double width) const {
        double const row = 20, left = 58, across = width - left - 2;
        auto const rows = row * static_cast<double>(ranks.size());
        std::string out = "<svg class=" + std::string(screen) + " viewBox=\"0 0 " + px(width) +
                          ' ' + px(rows + 20) + "\" role=img aria-label=\"Phases over time\">";
        auto const x = [&](double t) { return left + across * (t - begin) / seconds; };
        auto const step = nice(seconds / (width < 500 ? 3 : 6));
        for (int k = 0; k < 12 && k * step <= seconds * 1.001; ++k) {
            auto const at = px(x(begin + k * step));
            out +=
                "<path d=\"M" + at + " 0V" + px(rows + 3) +
                "\" style=\"stroke:var(--line);fill:none\"/><text class=soft font-size=11 x=" + at +
                " y=" + px(rows + 16) + (k == 0 ? "" : " text-anchor=middle") + '>' +
                (k == 0 ? "0" : duration(k * step)) + "</text>";
        }
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            auto const y = row * static_cast<double>(i);
            out += "<text font-size=11 x=0 y=" + px(y + 14) + ">rank " +
                   std::to_string(ranks[i]->rank) + "</text><path d=\"M" + px(x(ranks[i]->begin)) +
                   ' ' + px(y + 10) + "H" + px(x(ranks[i]->end)) +
                   "\" style=\"stroke:var(--soft);fill:none\"/>";
            for (std::size_t k = 0; k < std::min(most_drawn, ranks[i]->phases.size()); ++k) {
                auto const& p = ranks[i]->phases[k];
                auto const from = x(p.begin), to = std::max(from + 1, x(p.end));
                out += "<g class=" + colour(colour_of(p.name)) + "><path d=\"M" + px(from) + ' ' +
                       px(y + 3) + "H" + px(to) + "V" + px(y + 17) + "H" + px(from) +
                       "Z\"/><title>rank " + std::to_string(ranks[i]->rank) + ", " +
                       shown_name(p.name, 40) + ": " +
                       (p.ended ? duration(p.end - p.begin) : "not ended") +
                       (p.bytes != 0 ? ", " + short_bytes(static_cast<double>(p.bytes)) : "") +
                       "</title></g>";
            }
        }
        return out + "</svg>";
    }
    /// Rows of a table: each phase with its slowest and fastest rank.
    std::string rows() const {
        std::string out;
        for (auto const& name : phases) {
            double slowest = -1, fastest = std::numeric_limits<double>::max();
            double bytes = 0, first = fastest, last = 0;
            std::uint64_t by = 0;
            for (auto const* v : ranks) {
                double took = 0;
                bool has = false;
                for (auto const& p : v->phases) {
                    if (p.name != name) continue;
                    has = true;
                    took += p.end - p.begin;
                    bytes += static_cast<double>(p.bytes);
                    first = std::min(first, p.begin);
                    last = std::max(last, p.end);
                }
                if (!has) continue;
                if (took > slowest) by = v->rank;
                slowest = std::max(slowest, took);
                fastest = std::min(fastest, took);
            }
            if (slowest < 0) continue;
            out +=
                "<tr><td><span class=\"sw " + colour(colour_of(name)) + "\"></span>" +
                shown_name(name) + "<td class=r>" + duration(slowest) +
                (ranks.size() > 1 ? " <span class=soft>(" + std::to_string(by) + ")</span>" : "") +
                "<td class=r>" + duration(fastest) + "<td class=r>" +
                (bytes > 0 ? short_bytes(bytes) : "") + "<td class=r>" +
                (bytes > 0 && last > first ? short_bytes(bytes / (last - first)) + "/s" : "");
        }
        return out;
    }

    static constexpr std::size_t most_ranks = 48;
    std::vector<const traced_verb*> ranks{};
    std::size_t left_out = 0;
    bool is_of_checkpoint = false;
    double seconds = 0;

private:
    static constexpr std::size_t most_phases = 32;  ///< Names.
    static constexpr std::size_t most_drawn = 32;   ///< Of a rank.

    static std::string last_name(const std::string& path) {
        auto p = std::filesystem::path(path).lexically_normal();
        return (p.has_filename() ? p : p.parent_path()).filename().string();
    }
    std::size_t colour_of(std::string_view phase) const {
        auto const at = std::find(phases.begin(), phases.end(), phase);
        return at == phases.end() ? 8 : static_cast<std::size_t>(at - phases.begin()) % colours;
    }
    /// Returns 1, 2 or 5 times a power of ten, not less than `least`.
    static double nice(double least) {
        double const ten = std::pow(10, std::floor(std::log10(least)));
        for (double const n : {1, 2, 5})
            if (n * ten >= least) return n * ten;
        return 10 * ten;
    }

    std::vector<std::string> phases{};  ///< In the order of their first appearance.
    double begin = 0, end = 0;
};

inline void append_timeline(std::string& out, const trace_reader& trace,
                            const std::string& checkpoint) {
    timeline const t(trace, checkpoint);
    auto const& v = *t.ranks.front();
    auto const failed = std::find_if(t.ranks.begin(), t.ranks.end(),
                                     [](auto const* r) { return r->result != "succeeded"; });
    out += "<h2>Time</h2><p class=s><span class=m>" + shown_name(v.verb) +
           "</span> of <span class=m>" + shown_name(v.checkpoint) +
           "</span>: " + duration(t.seconds) + " on " +
           counted(t.ranks.size() + t.left_out, "rank", "ranks") +
           ". On the thin line a rank waited for others, or had not begun a phase.</p>";
    if (!t.is_of_checkpoint)
        out +=
            "<p class=bad>The trace has no save of this checkpoint: this is the last one that "
            "it has.</p>";
    if (failed != t.ranks.end())
        out += "<p class=bad>Rank " + std::to_string((*failed)->rank) + ": " +
               ((*failed)->result.empty() ? "the trace does not have its end"
                                          : html(shortened((*failed)->result, 600))) +
               ".</p>";
    if (trace.ends_early()) out += "<p class=s>The file of the trace is cut off.</p>";
    out += t.draw("w", 1080) + t.draw("n", 360) +
           "<table class=phases><thead><tr><th>Phase<th class=r>Slowest" +
           (t.ranks.size() > 1 ? " (rank)" : std::string()) +
           "<th class=r>Fastest<th class=r>Bytes<th class=r>Rate</thead><tbody>" + t.rows() +
           "</tbody></table>";
    if (t.left_out != 0)
        out += "<p class=s>The " + grouped(t.ranks.size()) + " slowest ranks; " +
               grouped(t.left_out) + " are left out.</p>";
}

}  // namespace tool::page

#endif
