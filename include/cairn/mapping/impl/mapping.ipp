// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_MAPPING_IPP
#define CAIRN_MAPPING_IMPL_MAPPING_IPP

#include <cairn/mapping/mapping.hpp>

#include <cairn/error.hpp>
#include <cairn/mapping/detail/lines.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/node.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace map::detail {

/// What the captures of a line need: those of an expression are the pattern's or a stack's, and
/// those of the pattern can be found.
CAIRN_DECL void check_captures(const name_pattern& name, const expression& e,
                               std::vector<std::string> counted, std::vector<std::string>& found) {
    auto const& n = e.node();
    auto const has = [](const std::vector<std::string>& all, const std::string& capture) {
        return std::find(all.begin(), all.end(), capture) != all.end();
    };
    if (n.is_a(operation::stack)) {
        if (name.has(n.capture) || has(counted, n.capture))
            throw error(errc::invalid_argument,
                        {.expected = "a capture for stack that nothing else has",
                         .found = "{" + n.capture + "} in " + shown(e)});
        counted.push_back(n.capture);
    }
    for (auto const& capture : n.name.names()) {
        if (!name.has(capture) && !has(counted, capture))
            throw error(errc::invalid_argument, {.expected = "captures of \"" + name.text() + "\"",
                                                 .found = "{" + capture + "} in " + shown(e)});
        if (name.has(capture) && name.takes_dots(capture) != n.name.takes_dots(capture))
            throw error(
                errc::invalid_argument,
                {.expected = "{" + capture + "} with or without dots as in \"" + name.text() + "\"",
                 .found = shown(e)});
        if (!has(found, capture)) found.push_back(capture);
    }
    for (auto const& part : n.parts) check_captures(name, part, counted, found);
}

/// Whether one stored name tells all captures of a pattern that stored names tell.
CAIRN_DECL bool one_leaf_tells(const name_pattern& name, const expression& e) {
    std::vector<std::string> told;
    for_each_node(e, [&](const node& n) {
        for (auto const& capture : n.name.names())
            if (n.is_a(operation::stored) && name.has(capture)) told.push_back(capture);
    });
    bool found = told.empty();
    for_each_node(e, [&](const node& n) {
        found = found || (n.is_a(operation::stored) &&
                          std::all_of(told.begin(), told.end(),
                                      [&](auto const& c) { return n.name.has(c); }));
    });
    return found;
}

}  // namespace map::detail

CAIRN_DECL mapping& mapping::set(std::string name, map::expression made_of) {
    using map::detail::operation;
    map::detail::name_pattern const pattern(name);
    std::vector<std::string> found;
    map::detail::check_captures(pattern, made_of, {}, found);
    auto const& n = made_of.node();
    for (auto const& capture : pattern.names())
        if (std::find(found.begin(), found.end(), capture) == found.end() &&
            !n.is_a(operation::leave_out))
            throw error(errc::invalid_argument,
                        {.expected = "a stored name with {" + capture + "} of \"" + name + "\"",
                         .found = map::detail::shown(made_of)});
    if (!map::detail::one_leaf_tells(pattern, made_of))
        throw error(errc::invalid_argument,
                    {.expected = "a stored name with all captures of \"" + name + "\"",
                     .found = map::detail::shown(made_of)});
    for (auto const& part : n.parts)
        map::detail::for_each_node(part, [&](const map::detail::node& inner) {
            if (inner.is_a(operation::tie) || inner.is_a(operation::leave_out))
                throw error(errc::invalid_argument,
                            {.expected = "tie and leave_out as the outermost operation",
                             .found = map::detail::shown(made_of)});
        });
    lines_.push_back({std::move(name), std::move(made_of)});
    return *this;
}

CAIRN_DECL mapping& mapping::set_optional(std::string name, map::expression made_of) {
    set(std::move(name), std::move(made_of));
    lines_.back().optional = true;
    return *this;
}

CAIRN_DECL mapping& mapping::rename(std::string name, std::string stored) {
    return set(std::move(name), map::stored(std::move(stored)));
}

CAIRN_DECL mapping& mapping::follow(std::string name, std::string stored, std::string prefix,
                                    std::string stored_prefix) {
    map::detail::name_pattern const a(name), b(stored);
    auto of_name = a.names(), of_stored = b.names();
    std::sort(of_name.begin(), of_name.end());
    std::sort(of_stored.begin(), of_stored.end());
    bool const alike = of_name == of_stored &&
                       std::all_of(of_name.begin(), of_name.end(), [&](const std::string& c) {
                           return a.takes_dots(c) == b.takes_dots(c);
                       });
    if (!alike || !a.has(map::detail::parameter))
        throw error(errc::invalid_argument,
                    {.expected = "two patterns with {param...} and the same captures",
                     .found = "\"" + name + "\" and \"" + stored + "\""});
    for (auto const& p : {prefix, stored_prefix})
        if (!p.empty() && !map::detail::name_pattern(p).is_literal())
            throw error(errc::invalid_argument,
                        {.expected = "a prefix without captures", .found = "\"" + p + "\""});
    followers_.push_back(
        {std::move(name), std::move(stored), std::move(prefix), std::move(stored_prefix)});
    return *this;
}

CAIRN_DECL bool mapping::dequantises() const noexcept {
    bool any = false;
    for (auto const& one : lines_)
        map::detail::for_each_node(one.made_of, [&](const map::detail::node& n) {
            any = any || n.is_a(map::detail::operation::dequantise);
        });
    return any;
}

CAIRN_DECL bool operator==(const mapping& a, const mapping& b) {
    return std::equal(a.lines_.begin(), a.lines_.end(), b.lines_.begin(), b.lines_.end(),
                      [](auto const& x, auto const& y) {
                          return x.name == y.name && x.made_of == y.made_of &&
                                 x.optional == y.optional;
                      }) &&
           a.followers_ == b.followers_ && a.others_ == b.others_ && a.narrowing_ == b.narrowing_;
}

}  // namespace cairn

#endif
