// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_LINES_IPP
#define CAIRN_MAPPING_IMPL_LINES_IPP

#include <cairn/mapping/detail/lines.hpp>

#include <cairn/mapping/detail/node.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL lines::lines(const mapping& m) {
    for (auto const& line : m.lines()) {
        auto const i = names_.size();
        names_.emplace_back(line.name);
        // A literal pattern has no captures to fill in.
        if (names_.back().is_literal())
            literal_.try_emplace(names_.back().fill({}), i);
        else
            others_.push_back(i);
    }
    for (auto const& f : m.followers()) {
        follower_patterns patterns{name_pattern(f.name), name_pattern(f.stored), {}};
        for (auto& capture : patterns.name.names())
            if (capture != parameter) patterns.slot.push_back(std::move(capture));
        followers_.push_back(std::move(patterns));
    }
}

CAIRN_DECL std::optional<lines::made_by> lines::find(const std::string& name) const {
    auto const literal = literal_.find(name);
    auto const first_literal = literal == literal_.end() ? names_.size() : literal->second;
    for (auto const i : others_) {
        if (i > first_literal) break;
        made_by by{i, {}};
        if (names_[i].match(name, by.bound)) return by;
    }
    if (first_literal == names_.size()) return std::nullopt;
    return made_by{first_literal, {}};
}

CAIRN_DECL std::vector<std::size_t> lines::find_all(const std::string& name) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < names_.size(); ++i)
        if (captures c; names_[i].match(name, c)) all.push_back(i);
    return all;
}

CAIRN_DECL expression following(const expression& e, const name_pattern& stored,
                                const captures& slot) {
    auto n = e.node();
    for (auto& part : n.parts) part = following(part, stored, slot);
    if (n.is_a(operation::cast) || n.is_a(operation::dequantise)) return n.of();
    if (n.is_a(operation::stored)) {
        n.name = stored.with(parameter, n.name, slot);
        n.type.reset();
    } else if (n.value) {
        n.value = 0;
    }
    return expression(std::make_shared<const node>(std::move(n)));
}

CAIRN_DECL expression stored_as_it_is(const std::string& name) {
    node n;
    captures c;
    c.bind("name", name);
    n.name = name_pattern("{name...}").with("", {}, c);
    return expression(std::make_shared<const node>(std::move(n)));
}

}  // namespace cairn::map::detail

#endif
