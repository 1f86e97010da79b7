// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_CUT_SECTION_HPP
#define CAIRN_TOOLS_REPORT_CUT_SECTION_HPP

#include "content.hpp"
#include "html.hpp"
#include "treemap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool::page {

/// How one tensor is cut into stored boxes, as a picture of two of its dimensions.
class cut_drawing {
public:
    /// @param files  Numbers of the files, for the colours of those that name no rank.
    cut_drawing(const cairn::tensor_metadata& t, const std::map<std::string, std::size_t>& files)
        : t_(t), files_(files) {
        std::vector<std::size_t> cut, whole;
        for (std::size_t d = 0; d < t.shape.size(); ++d) (is_cut(d) ? cut : whole).push_back(d);
        std::stable_sort(whole.begin(), whole.end(),
                         [&](std::size_t a, std::size_t b) { return t.shape[a] > t.shape[b]; });
        cut.insert(cut.end(), whole.begin(), whole.end());
        for (std::size_t i = 0; i < std::min<std::size_t>(2, cut.size()); ++i)
            shown_.push_back(cut[i]);
        std::sort(shown_.begin(), shown_.end());
        double const down = shown_.size() < 2 ? 0 : extent(shown_.front());
        height_ = std::clamp(width * down / std::max(1.0, extent(shown_.back())), 44.0, 240.0);
    }

    std::string draw() const {
        std::string out = "<svg viewBox=\"0 0 " + px(left + width + 1) + ' ' +
                          px(top + height_ + 1) + "\" role=img aria-label=\"Stored boxes\">";
        out += text(left, 11, axis(shown_.back()), "");
        if (shown_.size() == 2)
            out += text(0, 0, axis(shown_.front()),
                        " transform=\"translate(11 " + px(top + height_) + ") rotate(-90)\"");
        std::size_t drawn = 0;
        for (std::size_t i = 0; i < t_.chunks.size() && drawn < most_boxes; ++i) {
            auto const at = place(i);
            if (at.area() <= 0) continue;
            ++drawn;
            out += "<g class=" + colour(colour_of_chunk(i)) + "><path d=\"M" + px(at.x) + ' ' +
                   px(at.y) + "H" + px(at.x + at.width) + "V" + px(at.y + at.height) + "H" +
                   px(at.x) + "Z\"/><title>" + region(i) + '\n' +
                   shown_name(t_.chunks.file(i), 60) + "</title></g>";
            auto const label = owner(i);
            auto const wide = 6.2 * static_cast<double>(label.size());
            if (at.width > wide + 4 && at.height > 12)
                out += "<g class=k><text text-anchor=middle font-size=10 x=" +
                       px(at.x + at.width / 2) + " y=" + px(at.y + at.height / 2 + 3.5) + '>' +
                       html(label) + "</text></g>";
        }
        return out + "</svg>";
    }
    /// Rows of a table: box, rank or file, bytes.
    std::string rows() const {
        constexpr std::size_t most = 12;
        std::string out = "<table><thead><tr><th>Box<th>Written by<th class=r>Bytes</thead><tbody>";
        for (std::size_t i = 0; i < std::min(most, t_.chunks.size()); ++i) {
            double bytes = static_cast<double>(cairn::size_of(t_.type));
            for (auto const n : t_.chunks.lengths(i)) bytes *= static_cast<double>(n);
            auto const rank = rank_of(t_.chunks.file(i));
            out += "<tr><td class=m>" + region(i) + "<td><span class=\"sw " +
                   colour(colour_of_chunk(i)) + "\"></span>" +
                   (rank ? "rank " + std::to_string(*rank)
                         : "<span class=m>" + shown_name(t_.chunks.file(i)) + "</span>") +
                   "<td class=r>" + short_bytes(bytes);
        }
        out += "</tbody></table>";
        if (t_.chunks.size() > most)
            out += "<p class=s>and " + grouped(t_.chunks.size() - most) + " more</p>";
        return out;
    }
    /// Whether the picture shows all boxes.
    bool is_whole() const {
        if (t_.chunks.size() > most_boxes) return false;
        for (std::size_t i = 0; i < t_.chunks.size(); ++i)
            if (!is_in_plane(i)) return false;
        return true;
    }

private:
    static constexpr double left = 18, top = 17, width = 400;
    static constexpr std::size_t most_boxes = 1024;

    double extent(std::size_t d) const { return static_cast<double>(t_.shape[d]); }
    bool is_cut(std::size_t d) const {
        for (std::size_t i = 0; i < t_.chunks.size(); ++i)
            if (t_.chunks.lengths(i)[d] != t_.shape[d]) return true;
        return false;
    }
    /// Boxes of more dimensions are shown at index 0 of the others.
    bool is_in_plane(std::size_t i) const {
        auto const offsets = t_.chunks.offsets(i);
        for (std::size_t d = 0; d < offsets.size(); ++d)
            if (offsets[d] != 0 && std::find(shown_.begin(), shown_.end(), d) == shown_.end())
                return false;
        return true;
    }
    rectangle place(std::size_t i) const {
        if (!is_in_plane(i)) return {0, 0, 0, 0};
        auto const offsets = t_.chunks.offsets(i), lengths = t_.chunks.lengths(i);
        auto const along = [&](std::size_t d, double size) {
            auto const scale = size / std::max(1.0, extent(d));
            return std::pair(scale * static_cast<double>(offsets[d]),
                             scale * static_cast<double>(lengths[d]));
        };
        auto const x = along(shown_.back(), width);
        auto const y = shown_.size() < 2 ? std::pair(0.0, height_) : along(shown_.front(), height_);
        return {left + x.first, top + y.first, x.second, y.second};
    }
    std::size_t colour_of_chunk(std::size_t i) const {
        auto const& file = t_.chunks.file(i);
        auto const rank = rank_of(file);
        if (rank) return static_cast<std::size_t>(*rank % colours);
        auto const at = files_.find(file);
        return at == files_.end() ? 8 : at->second % colours;
    }
    std::string owner(std::size_t i) const {
        auto const rank = rank_of(t_.chunks.file(i));
        return rank ? std::to_string(*rank) : "";
    }
    std::string axis(std::size_t d) const {
        return "dim " + std::to_string(d) + ": " + grouped(static_cast<std::uint64_t>(t_.shape[d]));
    }
    static std::string text(double x, double y, const std::string& s, const std::string& more) {
        return "<text class=soft font-size=11 x=" + px(x) + " y=" + px(y) + more + '>' + s +
               "</text>";
    }
    /// As a slice, e.g. `[0:4, 0:6]`.
    std::string region(std::size_t i) const {
        auto const offsets = t_.chunks.offsets(i), lengths = t_.chunks.lengths(i);
        std::string out = "[";
        for (std::size_t d = 0; d < offsets.size(); ++d)
            out += (d == 0 ? "" : ", ") + std::to_string(offsets[d]) + ":" +
                   std::to_string(offsets[d] + lengths[d]);
        return out + "]";
    }

    const cairn::tensor_metadata& t_;
    const std::map<std::string, std::size_t>& files_;
    std::vector<std::size_t> shown_{};  ///< One or two dimensions.
    double height_ = 0;
};

/// A number that tensors of one shape, cut in one way by the same ranks or files, share.
inline std::uint64_t cut_of(const cairn::tensor_metadata& t) {
    std::uint64_t h = 14695981039346656037u;
    auto const mix = [&](std::uint64_t n) { h = (h ^ n) * 1099511628211u; };
    mix(static_cast<std::uint64_t>(t.type));
    for (auto const n : t.shape) mix(static_cast<std::uint64_t>(n));
    for (std::size_t i = 0; i < t.chunks.size(); ++i) {
        for (auto const n : t.chunks.offsets(i)) mix(static_cast<std::uint64_t>(n));
        mix(rank_of(t.chunks.file(i)).value_or(t.chunks.row_of(i).file));
    }
    return h;
}

/// The largest tensors that are stored in several boxes, one for each way of cutting.
inline void append_cuts(std::string& out, const content& c) {
    constexpr std::size_t most = 6;
    std::vector<const entry*> cut;
    for (auto const& e : c.entries)
        if (e.tensor != nullptr && e.tensor->chunks.size() > 1 && !e.tensor->shape.empty() &&
            e.bytes > 0)
            cut.push_back(&e);
    if (cut.empty()) return;
    std::stable_sort(cut.begin(), cut.end(),
                     [](const entry* a, const entry* b) { return a->bytes > b->bytes; });
    std::map<std::uint64_t, std::size_t> same;
    std::vector<std::pair<const entry*, std::uint64_t>> first;
    for (auto const* e : cut) {
        auto const key = cut_of(*e->tensor);
        if (++same[key] == 1 && first.size() < most) first.emplace_back(e, key);
    }
    std::map<std::string, std::size_t> files;
    for (auto const& [name, f] : c.files) files.emplace(name, files.size());
    out += "<h2>How tensors are cut</h2><p class=s>" +
           counted(cut.size(), "tensor is", "tensors are") + " stored in several boxes, in " +
           counted(same.size(), "way", "ways") + ". The largest of each way; the colour is the " +
           (c.ranks.empty() ? "file" : "rank that wrote it") + ".</p>";
    for (auto const& [e, key] : first) {
        cut_drawing const drawing(*e->tensor, files);
        auto const others = same[key] - 1;
        out += "<details" + std::string(e == first.front().first ? " open" : "") +
               "><summary><span class=m>" + shown_name(e->name) + "</span> <span class=s>" +
               std::string(e->type()) + ' ' + e->shape() + ", " +
               counted(e->tensor->chunks.size(), "box", "boxes") +
               (others == 0 ? "" : ", as " + counted(others, "other", "others")) +
               "</span></summary><div class=cut><div>" + drawing.draw() +
               (drawing.is_whole() ? ""
                                   : "<p class=s>Not all boxes are drawn: at most 1,024, at index "
                                     "0 of the dimensions that are not shown.</p>") +
               "</div><div>" + drawing.rows() + "</div></div></details>";
    }
}

}  // namespace tool::page

#endif
