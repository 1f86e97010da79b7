// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_DETAIL_PROGRESS_TEXT_HPP
#define CAIRN_OBSERVE_DETAIL_PROGRESS_TEXT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/observe/verb_event.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Formats a number of bytes, e.g. `4.5 GB`.
CAIRN_DECL std::string bytes_text(double bytes);
/// Formats a duration, e.g. `2 min 5 s`.
CAIRN_DECL std::string time_text(std::chrono::nanoseconds t);
/// Returns the beginning of a text that takes at most `columns` of a terminal, without control
/// characters.
CAIRN_DECL std::string one_line(std::string_view text, int columns);

/// The text of a progress line for one operation, from its events alone.
class progress_text {
public:
    using clock = verb_event::clock;

    CAIRN_DECL explicit progress_text(const verb_event& begin);

    CAIRN_DECL void notify(const verb_event& e);
    CAIRN_DECL std::string running(clock::time_point now) const;
    CAIRN_DECL std::string ended(const verb_event& end) const;
    clock::time_point began() const noexcept { return began_; }

private:
    struct mark {
        clock::time_point at{};
        std::uint64_t bytes = 0;
    };
    /// Returns bytes per second over the last five to ten seconds; 0: unknown.
    double rate(clock::time_point now) const;

    std::string name_;
    clock::time_point began_;
    bool alone_;
    std::string phase_{};
    clock::time_point since_{};  ///< When the phase began, or the last one ended.
    std::uint64_t bytes_ = 0, total_ = 0;
    std::uint64_t all_bytes_ = 0;  ///< Of all phases but the copy.
    std::array<mark, 2> marks_{};  ///< An older and a newer point of this phase.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/progress_text.ipp>
#endif

#endif
