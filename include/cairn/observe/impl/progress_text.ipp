// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_PROGRESS_TEXT_IPP
#define CAIRN_OBSERVE_IMPL_PROGRESS_TEXT_IPP

#include <cairn/observe/detail/progress_text.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/printable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace cairn::detail {

CAIRN_DECL std::string bytes_text(double bytes) {
    constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    std::size_t unit = 0;
    for (; bytes >= 999.5 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
    char text[32];
    (void)std::snprintf(text, sizeof text, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s",
                        bytes, units[unit]);
    return text;
}
CAIRN_DECL std::string time_text(std::chrono::nanoseconds t) {
    auto const all = std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::seconds>(t + std::chrono::milliseconds(500))
               .count());
    if (all < 10) {
        char text[32];
        (void)std::snprintf(text, sizeof text, "%.1f s",
                            std::max(0.0, std::chrono::duration<double>(t).count()));
        return text;
    }
    auto const part = [](std::int64_t n, const char* unit) { return std::to_string(n) + unit; };
    if (all < 60) return part(all, " s");
    if (all < 3600) return part(all / 60, " min ") + part(all % 60, " s");
    return part(all / 3600, " h ") + part(all % 3600 / 60, " min");
}
CAIRN_DECL std::string one_line(std::string_view text, int columns) {
    auto const clean = terminal_text(text);
    std::string out;
    for (std::size_t at = 0; at < clean.size();) {
        auto const n = utf8_length(clean, at);
        columns -= columns_of(code_point(clean, at, n));
        if (columns < 0) break;
        out += clean.substr(at, n);
        at += n;
    }
    return out;
}

CAIRN_DECL progress_text::progress_text(const verb_event& begin)
    : began_(begin.at), alone_(begin.ranks == 1), since_(begin.at) {
    // The end of a long path tells checkpoints apart.
    constexpr std::size_t longest = 40;
    auto id = begin.id;
    if (id.size() > longest) {
        id.remove_prefix(id.size() - longest + 3);
        while (!id.empty() && (static_cast<unsigned char>(id.front()) & 0xc0) == 0x80)
            id.remove_prefix(1);
    }
    name_ = std::string(begin.verb) + ' ' + (id.size() < begin.id.size() ? "..." : "") +
            std::string(id);
    if (!alone_)
        name_ +=
            " (rank " + std::to_string(begin.rank) + " of " + std::to_string(begin.ranks) + ')';
}

CAIRN_DECL void progress_text::notify(const verb_event& e) {
    switch (e.what) {
        case verb_event::kind::phase_begin:
            phase_ = e.phase;
            since_ = e.at;
            bytes_ = total_ = 0;
            marks_.fill({e.at, 0});
            break;
        case verb_event::kind::progress:
            bytes_ = e.bytes;
            total_ = e.total_bytes;
            if (e.at - marks_[1].at >= std::chrono::seconds(5)) {
                marks_[0] = marks_[1];
                marks_[1] = {e.at, e.bytes};
            }
            break;
        case verb_event::kind::phase_end:
            if (e.phase != "stage") all_bytes_ += e.bytes;
            phase_.clear();
            since_ = e.at;
            break;
        case verb_event::kind::begin:
        case verb_event::kind::end: break;
    }
}

CAIRN_DECL double progress_text::rate(clock::time_point now) const {
    auto const& from = marks_[0];
    auto const seconds = std::chrono::duration<double>(now - from.at).count();
    return seconds < 0.1 ? 0 : static_cast<double>(bytes_ - from.bytes) / seconds;
}

CAIRN_DECL std::string progress_text::running(clock::time_point now) const {
    auto text = name_ + ": ";
    if (phase_.empty()) {
        // Nothing else takes place between phases.
        text += alone_ ? "between phases" : "waiting for other ranks";
        return text + ", " + time_text(now - since_);
    }
    text += phase_;
    if (bytes_ == 0) return text + ", " + time_text(now - since_);
    if (total_ == 0) {
        text += ' ' + bytes_text(static_cast<double>(bytes_));
    } else {
        // With the bytes that a format adds to the content, it may exceed the total.
        auto const done = std::min(bytes_, total_);
        auto const percent =
            static_cast<int>(100 * static_cast<double>(done) / static_cast<double>(total_));
        text += ' ' + std::to_string(percent) + "%, " + bytes_text(static_cast<double>(done)) +
                " of " + bytes_text(static_cast<double>(total_));
    }
    auto const per_second = rate(now);
    if (per_second < 1) return text;
    text += ", " + bytes_text(per_second) + "/s";
    if (bytes_ < total_) {
        auto const left = static_cast<double>(total_ - bytes_) / per_second;
        if (left < 1e6)
            text += ", " + time_text(std::chrono::nanoseconds(std::int64_t(left * 1e9))) + " left";
    }
    return text;
}
CAIRN_DECL std::string progress_text::ended(const verb_event& end) const {
    auto const took = end.at - began_;
    if (end.failure) return name_ + ": failed after " + time_text(took);
    auto text = name_ + ": ";
    if (all_bytes_ != 0) text += bytes_text(static_cast<double>(all_bytes_)) + " in ";
    text += time_text(took);
    auto const seconds = std::chrono::duration<double>(took).count();
    if (all_bytes_ != 0 && seconds > 0)
        text += ", " + bytes_text(static_cast<double>(all_bytes_) / seconds) + "/s";
    return text;
}

}  // namespace cairn::detail

#endif
