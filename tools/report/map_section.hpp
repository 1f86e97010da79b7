// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_MAP_SECTION_HPP
#define CAIRN_TOOLS_REPORT_MAP_SECTION_HPP

#include "content.hpp"
#include "html.hpp"
#include "name_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool::page {

/// Draws a @ref name_map as an SVG: rectangles, then the outlines of groups, then labels where they
/// fit. What is pointed at, or tapped, is described in a strip below.
class map_drawing {
public:
    /// @param most_labelled  Levels of outlines that have labels.
    map_drawing(const content& c, double width, double height, std::size_t most_labelled)
        : c_(c), frame_{0, 0, width, height}, most_labelled_(most_labelled) {
        std::vector<map_item> items;
        for (auto const& e : c.entries) items.push_back({e.name, e.bytes});
        // At most about 2500 rectangles, and none that no finger can hit.
        cells_ = name_map(items, std::max(120.0, frame_.area() / 2500)).cells(frame_);
    }

    /// Whether some rectangles stand for names of several dtypes.
    bool is_mixed() const {
        return std::any_of(cells_.begin(), cells_.end(), [&](const map_cell& cell) {
            return cell.what != map_cell::kind::outline && class_of(cell) == "mix";
        });
    }
    std::string draw(std::string_view screen) {
        std::string out = "<svg class=\"map " + std::string(screen) + "\" viewBox=\"0 0 " +
                          px(frame_.width) + ' ' + px(frame_.height + strip) +
                          "\" role=img aria-label=\"Bytes by name\">";
        std::string outlines = "<g class=o>", labels = "<g class=k>";
        for (auto const& cell : cells_) {
            if (cell.what == map_cell::kind::outline) {
                constexpr std::array<double, 3> widths{3, 1.8, 1.1};
                outlines += "<path d=\"" + path(cell.at) + "\" style=\"stroke-width:" +
                            px(widths[std::min<std::size_t>(cell.depth, 2)]) + "\"/>";
                label(cell, labels);
                continue;
            }
            out +=
                "<g class=" + class_of(cell) + " tabindex=-1><path d=\"" + path(cell.at) + "\"/>";
            describe(cell, out);
            out += "</g>";
            label(cell, labels);
        }
        return out + outlines + "</g>" + labels +
               "</g><text class=\"soft hint\" font-size=11 y=" + px(frame_.height + 17) +
               ">Point at a rectangle, or tap it.</text></svg>";
    }

private:
    static constexpr double strip = 42, gap = 7;
    static constexpr double letter = 0.61;  ///< A letter's width, of its height.

    static double tenths(double d) { return std::round(10 * d) / 10; }
    /// Rounded edges, so that neighbours neither overlap nor part.
    static std::string path(const rectangle& r) {
        double const x = tenths(r.x), y = tenths(r.y);
        return "M" + px(x) + ' ' + px(y) + "H" + px(tenths(r.x + r.width)) + "V" +
               px(tenths(r.y + r.height)) + "H" + px(x) + "Z";
    }
    bool is_one(const map_cell& cell) const { return cell.what == map_cell::kind::item; }

    /// The colour of its dtype, if all its names have one.
    std::string class_of(const map_cell& cell) const {
        auto const of = [&](std::size_t i) {
            return page::colour_of(c_.entries[cell.item + i].type());
        };
        bool one = cell.what != map_cell::kind::rest;
        for (std::size_t i = 1; one && i < cell.count; ++i) one = of(i) == of(0);
        return one ? colour(of(0)) : "mix";
    }

    void describe(const map_cell& cell, std::string& out) const {
        auto const& e = c_.entries[cell.item];
        std::string name, more;
        if (is_one(cell)) {
            name = shown_name(e.name);
            more = std::string(e.type()) + (e.tensor != nullptr ? ' ' + e.shape() : "");
        } else {
            name =
                shown_name(cell.group) + (cell.what == map_cell::kind::rest ? "… (others)" : "…");
            more = counted(cell.count, "name", "names");
        }
        auto const bytes = cell.bytes < 1e18
                               ? grouped(static_cast<std::uint64_t>(cell.bytes)) + " bytes"
                               : short_bytes(cell.bytes);
        more += " · " + bytes;
        out += "<title>" + name + '\n' + more +
               "</title><text class=i font-size=11><tspan x=0 y=" + px(frame_.height + 17) + '>' +
               strip_name(cell) + "</tspan><tspan x=0 y=" + px(frame_.height + 34) + '>' + more +
               " · " + percent(cell.bytes, static_cast<double>(c_.bytes)) + "</tspan></text>";
    }
    std::string strip_name(const map_cell& cell) const {
        auto const name = is_one(cell) ? c_.entries[cell.item].name : cell.group;
        auto const most = static_cast<std::size_t>(frame_.width / (11 * letter)) - 1;
        return shown_name(name, std::min<std::size_t>(most, 120));
    }

    /// Writes a label into the cell's first line in which it meets no other.
    void label(const map_cell& cell, std::string& out) {
        bool const outline = cell.what == map_cell::kind::outline;
        if (outline && cell.depth >= most_labelled_) return;
        double const size = outline ? 11 : 10, line = size + 3;
        auto const fit = (cell.at.width - 8) / (size * letter);
        auto text = cell.what == map_cell::kind::rest
                        ? "+" + grouped(cell.count)
                        : cairn::terminal_text(cell.label.substr(0, 4096));
        if (fit < 2 || (fit < 5 && fit < static_cast<double>(characters(text)))) return;
        text = shortened(text, static_cast<std::size_t>(fit));
        double const wide = static_cast<double>(characters(text)) * size * letter;
        // Beside the labels around it, or below them.
        for (int k = 0; k < 4; ++k) {
            rectangle r{cell.at.x + 4, cell.at.y + 2 + k * line, wide, line};
            if (r.y + r.height > cell.at.y + cell.at.height - 1) return;
            for (auto const& o : labels_)
                if (r.x < o.x + o.width + gap && o.x < r.x + r.width && r.y < o.y + o.height &&
                    o.y < r.y + r.height)
                    r.x = o.x + o.width + gap;
            if (r.x + wide > cell.at.x + cell.at.width - 2) continue;
            labels_.push_back(r);
            out += "<text" +
                   std::string(!outline          ? ""
                               : cell.depth == 0 ? " class=b"
                                                 : " class=g") +
                   " font-size=" + px(size) + " x=" + px(r.x) + " y=" + px(r.y + size) + '>' +
                   html(text) + "</text>";
            return;
        }
    }

    const content& c_;
    rectangle frame_;
    std::size_t most_labelled_;
    std::vector<map_cell> cells_{};
    std::vector<rectangle> labels_{};
};

inline void append_map(std::string& out, const content& c) {
    out +=
        "<h2>Bytes by name</h2><p class=s>Area is bytes, colour is dtype. Names are nested by "
        "their dots.</p><ul class=key>";
    std::vector<std::pair<std::uint64_t, std::string_view>> types;
    for (auto const& [type, s] : c.types) types.emplace_back(s.bytes, type);
    std::sort(types.rbegin(), types.rend());
    for (auto const& [bytes, type] : types)
        out += "<li><span class=\"sw " + colour(colour_of(type)) + "\"></span>" +
               std::string(type) + " <span class=soft>" + short_bytes(static_cast<double>(bytes)) +
               ", " + percent(static_cast<double>(bytes), static_cast<double>(c.bytes)) +
               "</span></li>";
    map_drawing wide(c, 1080, 540, 8), narrow(c, 360, 440, 3);
    if (wide.is_mixed() || narrow.is_mixed())
        out += "<li><span class=\"sw mix\"></span>small ones together</li>";
    out += "</ul>" + wide.draw("w") + narrow.draw("n");
    auto const empty = std::count_if(c.entries.begin(), c.entries.end(),
                                     [](const entry& e) { return e.bytes == 0; });
    if (empty != 0)
        out += "<p class=s>" +
               counted(static_cast<std::uint64_t>(empty), "name has", "names have") +
               " no bytes.</p>";
}

/// A table of the names with the most bytes.
inline void append_largest(std::string& out, const content& c) {
    constexpr std::size_t most = 20;
    std::vector<const entry*> all;
    for (auto const& e : c.entries) all.push_back(&e);
    auto const shown = std::min(most, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                      [](const entry* a, const entry* b) {
                          return a->bytes != b->bytes ? a->bytes > b->bytes : a->name < b->name;
                      });
    out += "<details" + std::string(shown == all.size() ? " open" : "") + "><summary>" +
           (shown == all.size() ? "All names" : "The " + grouped(shown) + " largest") +
           "</summary><table class=names><thead><tr><th>Name<th>Dtype<th>Shape<th class=r>Bytes"
           "<th class=r>Share</thead><tbody>";
    for (std::size_t i = 0; i < shown; ++i) {
        auto const& e = *all[i];
        auto const bytes = static_cast<double>(e.bytes);
        out += "<tr><td class=m>" + shown_name(e.name) + "<td>" + std::string(e.type()) +
               "<td class=m>" + e.shape() + "<td class=r>" + short_bytes(bytes) + "<td class=r>" +
               percent(bytes, static_cast<double>(c.bytes));
    }
    out += "</tbody></table></details>";
}

}  // namespace tool::page

#endif
