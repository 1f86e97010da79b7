// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_TRACE_HPP
#define CAIRN_TOOLS_REPORT_TRACE_HPP

#include <cairn/error.hpp>
#include <cairn/format/json.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool::page {

/// A phase of a verb on one rank. Times are seconds.
struct traced_phase {
    std::string name{};
    double begin = 0;
    double end = 0;
    std::uint64_t bytes = 0;
    bool ended = false;
};
/// A verb on one rank.
struct traced_verb {
    std::uint64_t rank = 0;
    std::string verb{};
    std::string checkpoint{};
    std::string result{};  ///< Empty: the file does not have its end.
    double begin = 0;
    double end = 0;
    std::vector<traced_phase> phases{};
};

/// Reads the events of a `cairn::trace_file`: what begins and ends, on each rank and track.
class trace_reader {
public:
    /// @throws error errc::corrupt if it is no such file, errc::not_found if there is none
    explicit trace_reader(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        if (!in)
            throw cairn::error(
                cairn::errc::not_found,
                {.file = path, .remedy = "--trace takes a cairn::trace_file's file"});
        std::vector<char> piece(std::size_t{1} << 16);
        auto const next = [&]() -> std::span<const std::byte> {
            in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
            return std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(in.gcount())));
        };
        try {
            cairn::format::json::read(
                next, [&](cairn::format::json::path at, const event& e) { receive(at, e); });
        } catch (const cairn::error&) {
            // That of a process that was killed may end inside an event.
            ends_early_ = true;
        }
        if (verbs_.empty())
            throw cairn::error(cairn::errc::corrupt,
                               {.file = path,
                                .expected = "events of a cairn::trace_file",
                                .found = "no verb of cairn",
                                .remedy = "pass the file that a cairn::trace_file wrote"});
    }
    /// In the order in which they begin.
    const std::vector<traced_verb>& verbs() const { return verbs_; }
    bool ends_early() const { return ends_early_; }

private:
    using event = cairn::format::json::event;
    using track = std::pair<std::uint64_t, std::uint64_t>;

    struct fields {
        std::string name{}, type{};
        std::optional<std::string> checkpoint{}, result{};
        std::uint64_t rank = 0, track = 0, bytes = 0;
        double at = 0;
    };

    void receive(cairn::format::json::path at, const event& e) {
        using type = event::type;
        if (at.size() == 1 && e.kind == type::object) now_ = {};
        if (at.size() == 1 && e.kind == type::object_end) take();
        if (at.size() == 2 && e.kind == type::text) {
            if (at[1] == "name") now_.name = e.text;
            if (at[1] == "ph") now_.type = e.text;
        } else if (at.size() == 2 && e.kind == type::number) {
            if (at[1] == "pid") now_.rank = e.number.value_or(0);
            if (at[1] == "tid") now_.track = e.number.value_or(0);
            if (at[1] == "ts") {
                double us = 0;
                std::from_chars(e.text.data(), e.text.data() + e.text.size(), us);
                now_.at = std::isfinite(us) ? us / 1e6 : 0;
            }
        } else if (at.size() == 3 && at[1] == "args") {
            if (e.kind == type::text && at[2] == "checkpoint") now_.checkpoint = e.text;
            if (e.kind == type::text && at[2] == "result") now_.result = e.text;
            if (e.kind == type::number && at[2] == "bytes") now_.bytes = e.number.value_or(0);
        }
    }
    void take() {
        if (now_.type != "B" && now_.type != "E") return;
        track const key(now_.rank, now_.track);
        auto const running = running_.find(key);
        if (now_.type == "B" && now_.checkpoint) {
            running_[key] = verbs_.size();
            verbs_.push_back({now_.rank, now_.name, *now_.checkpoint, {}, now_.at, now_.at, {}});
        } else if (running != running_.end()) {
            auto& verb = verbs_[running->second];
            verb.end = std::max(verb.end, now_.at);
            if (now_.type == "B") {
                verb.phases.push_back({now_.name, now_.at, now_.at, 0, false});
            } else if (now_.result) {
                verb.result = *now_.result;
                running_.erase(running);
            } else if (!verb.phases.empty() && verb.phases.back().name == now_.name) {
                verb.phases.back().end = std::max(verb.phases.back().begin, now_.at);
                verb.phases.back().bytes = now_.bytes;
                verb.phases.back().ended = true;
            }
        }
    }

    std::vector<traced_verb> verbs_{};
    std::map<track, std::size_t> running_{};
    fields now_{};
    bool ends_early_ = false;
};

}  // namespace tool::page

#endif
