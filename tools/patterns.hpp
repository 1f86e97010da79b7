// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_PATTERNS_HPP
#define CAIRN_TOOLS_PATTERNS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// @param patterns  As a shell's for files, where `*` also matches dots and slashes.
inline bool matches(std::string_view fqn, const std::vector<std::string>& patterns) {
    std::string const name(fqn);
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) {
        return ::fnmatch(p.c_str(), name.c_str(), 0) == 0;
    });
}

/// @param stored  As it is, whatever names a mapping makes.
/// @throws cairn::error errc::invalid_argument if a pattern matches none of the names: with a slip
///         in it other things would be written than were meant
inline void check_patterns(const cairn::metadata& m, const cairn::metadata& stored,
                           const std::vector<std::string>& patterns) {
    for (auto const& pattern : patterns) {
        auto const in = [&](auto const& names) {
            return std::any_of(names.begin(), names.end(),
                               [&](auto const& e) { return matches(e.first, {pattern}); });
        };
        if (in(m.entries) || in(m.unsupported) || in(m.unmade) || in(stored.entries)) continue;
        throw cairn::error(cairn::errc::invalid_argument,
                           {.expected = "patterns that match names of the checkpoint",
                            .found = "'" + pattern + "', which matches none",
                            .remedy = "see the names with cairn ls, or leave it out"});
    }
}

}  // namespace tool

#endif
