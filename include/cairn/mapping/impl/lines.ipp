// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_LINES_IPP
#define CAIRN_MAPPING_IMPL_LINES_IPP

#include <cairn/mapping/detail/lines.hpp>

#include <cairn/mapping/detail/node.hpp>

#include <algorithm>
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
    names_.reserve(m.lines().size());
    for (auto const& line : m.lines()) {
        auto const i = names_.size();
        names_.emplace_back(line.name);
        // A literal pattern has no captures to fill in.
        if (names_.back().is_literal()) {
            literal_.try_emplace(names_.back().fill({}), i);
        } else {
            auto const prefix = names_.back().prefix({}), suffix = names_.back().suffix({});
            others_[{prefix.size(), suffix.size()}][prefix + suffix].push_back(i);
        }
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
    made_by best{literal == literal_.end() ? names_.size() : literal->second, {}};
    for (auto const& [e, of_ends] : others_) {
        if (e.prefix + e.suffix >= name.size()) continue;
        auto const some =
            of_ends.find(name.substr(0, e.prefix) + name.substr(name.size() - e.suffix));
        if (some == of_ends.end()) continue;
        for (auto const i : some->second) {
            if (i > best.line) break;
            if (captures c; names_[i].match(name, c)) {
                best = {i, std::move(c)};
                break;
            }
        }
    }
    if (best.line == names_.size()) return std::nullopt;
    return best;
}

CAIRN_DECL std::optional<follower_reading> lines::reading(
    const std::string& name, side of, const std::function<bool(const std::string&)>& known) const {
    auto const is_of_word = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    std::optional<follower_reading> first;
    for (auto const& f : followers_) {
        auto const& pattern = of == side::target ? f.name : f.stored;
        auto const& prefix = of == side::target ? f.prefix : f.stored_prefix;
        captures c;
        if (!pattern.match(name, c)) continue;
        auto const shortest = *c.find(parameter);
        auto const begin = pattern.prefix({}).size();
        // Where it is the first capture, it may be longer.
        auto end = name.compare(begin, shortest.size(), shortest) == 0 ? name.size() : 0;
        for (; end > begin + shortest.size(); --end) {
            if (end != name.size() && is_of_word(name[end])) continue;
            auto param = name.substr(begin, end - begin);
            if (!known(prefix.before(param))) continue;
            captures longer;
            longer.bind(std::string(parameter), param);
            if (pattern.match(name, longer))
                return follower_reading{&f, std::move(param), *longer.only(f.slot)};
        }
        follower_reading r{&f, shortest, *c.only(f.slot)};
        if (known(prefix.before(shortest))) return r;
        if (!first) first = std::move(r);
    }
    return first;
}

CAIRN_DECL void check_reads_back(const name_pattern& p, const std::string& name, const captures& by,
                                 const captures& read) {
    if (p.same(by, read)) return;
    std::string made_of, read_as;
    for (auto const& capture : p.names()) {
        auto const add = [&](std::string& to, const captures& from) {
            auto const* const text = from.find(capture);
            to += (to.empty() ? "" : ", ") + ("{" + capture + "} is '") +
                  (text != nullptr ? *text : std::string()) + "'";
        };
        add(made_of, by);
        add(read_as, read);
    }
    throw error(errc::invalid_argument,
                {.fqn = name,
                 .expected = "\"" + p.text() + "\" to read it as what it was made of: " + made_of,
                 .found = read_as,
                 .remedy = "Use a pattern that matches each name in one way only."});
}

CAIRN_DECL void check_reads_back(const name_pattern& p, const std::string& name,
                                 const captures& by) {
    captures read;
    p.match(name, read);
    check_reads_back(p, name, by, read);
}

CAIRN_DECL std::vector<std::string> leaf_names(const expression& e, const captures& bound,
                                               const name_list& known) {
    std::vector<std::string> all;
    for_each_node(e, [&](const node& n) {
        if (!n.is_a(operation::stored)) return;
        auto const before = static_cast<std::ptrdiff_t>(all.size());
        known.for_each_match(n.name, bound,
                             [&](const captures& c) { all.push_back(n.name.fill(c)); });
        std::sort(all.begin() + before, all.end());
    });
    return all;
}

CAIRN_DECL captures bound_to_first(const expression& e, captures bound) {
    std::vector<std::string> counted;
    for_each_node(e, [&](const node& n) {
        if (n.is_a(operation::stack)) counted.push_back(n.capture);
    });
    for_each_node(e, [&](const node& n) {
        for (auto const& c : n.name.names())
            if (bound.find(c) == nullptr &&
                std::find(counted.begin(), counted.end(), c) == counted.end())
                bound.bind(c, "0");
    });
    return bound;
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
        n.type.reset();  // its dtype is the parameter's
    }
    return expression(std::make_shared<const node>(std::move(n)));
}

CAIRN_DECL std::vector<std::size_t> unmatched_lines(const mapping& m, const name_list& names,
                                                    side of) {
    std::vector<std::size_t> unmatched;
    if (m.others() != other_names::leave_out) return unmatched;
    for (auto const& line : m.lines()) {
        bool matches = line.optional || line.made_of.node().is_a(operation::leave_out);
        auto const look = [&](const name_pattern& p) {
            if (!matches) names.for_each_match(p, {}, [&](const captures&) { matches = true; });
        };
        if (of == side::target) {
            look(name_pattern(line.name));
        } else {
            bool has_leaves = false;
            auto const look_below = [&](const auto& self, const expression& e) -> void {
                auto const& n = e.node();
                if (n.is_a(operation::constant_like)) return;  // not stored
                has_leaves = has_leaves || n.is_a(operation::stored);
                if (n.is_a(operation::stored)) look(n.name);
                for (auto const& part : n.parts) self(self, part);
            };
            look_below(look_below, line.made_of);
            matches = matches || !has_leaves;
        }
        if (!matches) unmatched.push_back(static_cast<std::size_t>(&line - m.lines().data()));
    }
    return unmatched;
}

CAIRN_DECL void refuse_unmatched(const mapping& m, const std::vector<std::size_t>& lines) {
    if (lines.empty()) return;
    std::string patterns;
    for (auto const i : lines)
        patterns += (patterns.empty() ? "\"" : ", \"") + m.lines()[i].name + "\"";
    throw error(
        errc::missing_key,
        {.expected = "a name of the state for each line of a mapping that leaves out others",
         .found = "none for " + patterns,
         .remedy = "correct the pattern, or use mapping::set_optional"});
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
