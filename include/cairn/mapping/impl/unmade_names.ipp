// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_UNMADE_NAMES_IPP
#define CAIRN_MAPPING_IMPL_UNMADE_NAMES_IPP

#include <cairn/mapping/detail/mapped.hpp>

#include <cairn/mapping/detail/lines.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/metadata/detail/nearest_name.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL unmade_names::unmade_names(const mapping& m, const metadata& stored)
    : lines_(std::make_shared<const lines>(m)),
      leaves_out_others_(m.others() == other_names::leave_out), stored_(stored) {
    std::vector<std::string_view> names;
    for (auto const& entry : stored.entries) names.emplace_back(entry.first);
    names_ = name_list(std::move(names));
    for (auto const& line : m.lines()) made_of_.push_back(line.made_of);
}

/// Describes the stored names of an expression, and what the checkpoint has of them.
CAIRN_DECL unmade_name unmade_names::described(const expression& e, const captures& bound) {
    unmade_name u;
    bool any = false;
    std::string instead;
    for_each_node(e, [&](const node& n) {
        if (!n.is_a(operation::stored)) return;
        auto const name = n.name.with({}, {}, bound).text();
        u.of += (u.of.empty() ? "'" : ", '") + name + "'";
        bool found = false;
        names_.for_each_match(n.name, bound, [&](const captures&) { found = true; });
        any = any || found;
        if (found || !instead.empty()) return;
        if (auto const other = stored_.unsupported.find(name); other != stored_.unsupported.end())
            instead = " (" + name + " is " + other->second.type + ")";
        else if (searches_++ < most_searches)
            instead = cairn::detail::nearest_name(name, stored_.entries);
    });
    u.found = (any ? "not all" : "none") + instead;
    return u;
}

CAIRN_DECL std::optional<unmade_name> unmade_names::find(const std::string& name) {
    auto const is_left_out = [](const expression& e) {
        return e.node().is_a(operation::leave_out);
    };
    if (auto const by = lines_->find(name)) {
        auto const& e = made_of_[by->line];
        if (is_left_out(e)) return unmade_name();
        return described(e, by->bound);
    }
    auto const known = [&](const std::string& p) { return lines_->find(p).has_value(); };
    if (auto const read = lines_->reading(name, side::target, known)) {
        auto const& f = *read->of;
        auto const param = f.prefix.before(read->param);
        auto const by = lines_->find(param);
        auto const e = by ? made_of_[by->line] : stored_as_it_is(param);
        if (is_left_out(e) || (!by && leaves_out_others_)) return unmade_name();
        if (!by && f.stored_beside(read->param, read->slot) == name) return std::nullopt;
        return described(following(e, f, read->slot), by ? by->bound : captures());
    }
    if (leaves_out_others_) return unmade_name();
    return std::nullopt;
}

}  // namespace cairn::map::detail

#endif
