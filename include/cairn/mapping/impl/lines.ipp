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

CAIRN_DECL parameter_prefix::parameter_prefix(std::string text) : text_(std::move(text)) {
    if (!text_.empty()) plain_ = name_pattern(text_).fill({});
}
CAIRN_DECL std::optional<std::string> parameter_prefix::off(const std::string& name) const {
    if (!name.starts_with(plain_) || name.size() == plain_.size()) return std::nullopt;
    return name.substr(plain_.size());
}
CAIRN_DECL name_pattern parameter_prefix::off(const name_pattern& name) const {
    auto const& all = name.text();
    if (!all.starts_with(text_) || all.size() == text_.size())
        throw error(errc::invalid_argument,
                    {.expected = "stored names of parameters that begin with \"" + text_ +
                                 "\", as follow says",
                     .found = "\"" + all + "\""});
    return name_pattern(all.substr(text_.size()));
}

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
        follower_patterns patterns{name_pattern(f.name),
                                   name_pattern(f.stored),
                                   parameter_prefix(f.prefix),
                                   parameter_prefix(f.stored_prefix),
                                   {}};
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

CAIRN_DECL expression following(const expression& e, const follower_patterns& how,
                                const captures& slot) {
    auto n = e.node();
    for (auto& part : n.parts) part = following(part, how, slot);
    if (n.is_a(operation::cast) || n.is_a(operation::dequantise)) return n.of();
    if (n.is_a(operation::stored)) {
        n.name = how.stored.with(parameter, how.stored_prefix.off(n.name), slot);
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
