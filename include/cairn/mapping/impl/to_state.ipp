// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_TO_STATE_IPP
#define CAIRN_MAPPING_IMPL_TO_STATE_IPP

#include <cairn/mapping/detail/mapped.hpp>

#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/lines.hpp>
#include <cairn/mapping/detail/node.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL sources tensors_of(const metadata& m) {
    sources all;
    for (auto const& [name, entry] : m.entries)
        if (auto const* const t = std::get_if<tensor_metadata>(&entry))
            all.add({name, t->type, t->shape});
    return all;
}

/// A load's direction: goes through the lines, and for each through the stored names that match.
class state_builder {
public:
    state_builder(const mapping& m, const metadata& stored, findings* found)
        : mapping_(m), stored_(stored), lines_(m), found_(found), tensors_(tensors_of(stored)) {
        slots_.resize(lines_.followers().size());
        std::set<std::string_view> names;
        for (auto const& [name, entry] : stored.entries) {
            names.insert(names.end(), name);
            add_slots(name, names);
        }
        names_ = name_list({names.begin(), names.end()});
        std::vector<std::string_view> unsupported;
        for (auto const& other : stored.unsupported) unsupported.emplace_back(other.first);
        unsupported_ = name_list(std::move(unsupported));
    }

    mapped build() && {
        for (std::size_t i = 0; i < mapping_.lines().size(); ++i)
            tolerate([&] {
                auto const lacking = made_.incomplete.size() + made_.unreadable.size();
                auto const all = bindings(i);
                if (all.empty() && !mapping_.lines()[i].optional &&
                    made_.incomplete.size() + made_.unreadable.size() == lacking &&
                    !mapping_.lines()[i].made_of.node().is_a(operation::leave_out))
                    made_.idle.push_back(i);
                for (auto const& bound : all) tolerate([&] { make(i, bound); });
            });
        for (std::size_t f = 0; f < slots_.size(); ++f) follow_unmapped(f);
        // What no other name has is there in any case.
        std::erase_if(made_.if_asked, [&](const std::string& name) {
            auto const& of = claims_.find(name)->second;
            return mapping_.others() != other_names::pass &&
                   std::any_of(of.begin(), of.end(),
                               [&](auto const& from) { return !made_.used.contains(from); });
        });
        for (auto const& entry : stored_.entries) tolerate([&] { pass(entry.first); });
        // Of two followers, the other one may have made it.
        std::erase_if(made_.incomplete, [&](auto const& one) {
            return made_.tensors.contains(one.first) || made_.values.contains(one.first);
        });
        return std::move(made_);
    }

private:
    /// Notes what a stored name belongs to. The parameter itself may be in another checkpoint: then
    /// it may be that of any follower.
    void add_slots(const std::string& name, std::set<std::string_view>& names) {
        auto const add = [&](const follower_patterns& f, const std::string& param, captures slot) {
            auto& of = slots_[static_cast<std::size_t>(&f - lines_.followers().data())];
            auto const at = of.try_emplace(f.stored_prefix.before(param)).first;
            names.insert(at->first);
            at->second.insert(std::move(slot));
        };
        auto const known = [&](const std::string& p) { return stored_.entries.contains(p); };
        auto read = lines_.reading(name, side::source, known);
        if (!read) return;
        if (known(read->of->stored_prefix.before(read->param)))
            return add(*read->of, read->param, std::move(read->slot));
        for (auto const& f : lines_.followers())
            if (captures c; f.stored.match(name, c)) add(f, *c.find(parameter), *c.only(f.slot));
    }

    template <class F>
    void tolerate(F&& f) {
        if (found_ == nullptr) return f();
        try {
            f();
        } catch (const error& e) {
            found_->errors.push_back(e);
        }
    }

    /// What the captures of a line's pattern stand for, each time.
    std::set<captures> bindings(std::size_t i) {
        auto const& e = mapping_.lines()[i].made_of;
        auto const all = lines_.names()[i].names();
        std::vector<std::string> told;  // by stored names
        bool has_leaves = false;
        for_each_node(e, [&](const node& n) {
            if (!n.is_a(operation::stored)) return;
            has_leaves = true;
            for (auto const& c : all)
                if (n.name.has(c) && std::find(told.begin(), told.end(), c) == told.end())
                    told.push_back(c);
        });
        std::set<captures> found;
        if (e.node().is_a(operation::leave_out)) return found;
        if (!has_leaves) found.insert(captures());
        for_each_node(e, [&](const node& n) {
            if (n.is_a(operation::stored))
                names_.for_each_match(n.name, {}, [&](const captures& c) {
                    if (is_followed(n.name, c)) return;
                    if (auto some = c.only(told)) found.insert(*std::move(some));
                });
        });
        for (auto const& capture : all)
            if (std::find(told.begin(), told.end(), capture) == told.end())
                found = with_indices(i, capture, found);
        return found;
    }

    /// Of a name that a line's pattern matches: whether a follower that says more of it reads it.
    bool is_followed(const name_pattern& by_line, const captures& c) const {
        auto const begin = by_line.prefix({}).size();
        auto const says_more = [&](const follower_patterns& f) {
            return f.stored.prefix({}).size() > begin;
        };
        if (std::none_of(lines_.followers().begin(), lines_.followers().end(), says_more))
            return false;
        auto const known = [&](const std::string& p) { return stored_.entries.contains(p); };
        auto const read = lines_.reading(by_line.fill(c), side::source, known);
        return read && says_more(*read->of) && known(read->of->stored_prefix.before(read->param));
    }

    /// A capture that is only an index takes all values of its dimension.
    std::set<captures> with_indices(std::size_t i, const std::string& capture,
                                    const std::set<captures>& before) {
        std::set<captures> after;
        for (auto const& bound : before)
            for_each_expression(mapping_.lines()[i].made_of, [&](const expression& e) {
                auto const& n = e.node();
                if (!n.is_a(operation::unstack) || !n.name.has(capture)) return;
                complaint const about{lines_.names()[i].with({}, {}, bound).text()};
                auto const known = shape_or_none(n.of(), bound, about.fqn);
                if (!known) return;
                auto const d = about.dim(e, n.dim, known->size());
                auto const count = (*known)[d];
                // Without elements, a file of any size may have any length.
                auto const left =
                    std::int64_t{most_operations} - static_cast<std::int64_t>(after.size());
                if (count > left)
                    about.fail(errc::unsupported, e,
                               "at most " + std::to_string(most_operations) + " names",
                               std::to_string(count) + " beside " + std::to_string(after.size()));
                for (std::int64_t index = 0; index < count; ++index) {
                    auto more = bound;
                    more.bind(capture, std::to_string(index));
                    after.insert(std::move(more));
                }
            });
        return after;
    }

    /// Not set where a part is missing or cannot be read: then none of the names is made.
    /// @param name  Stands for all of them.
    std::optional<index_vector> shape_or_none(const expression& e, const captures& bound,
                                              const std::string& name) {
        try {
            return shape_of(e, bound_to_first(e, bound), name);
        } catch (const error& x) {
            if (auto const others = leaf_names(e, bound, unsupported_); !others.empty())
                refuse_if_asked(name, e, bound, others.front());
            else
                lacks_part(x, with_followers(leaf_names(e, bound, names_)));
            return {};
        }
    }
    /// The shape of an operand; where an optimizer is stored without its model, that of its state.
    index_vector shape_of(const expression& e, const captures& bound,
                          const std::string& name) const {
        auto const shape = [&](const expression& of, captures own) {
            evaluation evaluate(tensors_, name);
            evaluate.suggests = made_.incomplete.size() < unmade_names::most_searches;
            return evaluate(of, own).shape;
        };
        auto const leaves = leaf_names(e, bound, names_);
        for (std::size_t f = 0; !all_stored(leaves) && f < slots_.size(); ++f)
            if (auto const slots = slots_[f].find(leaves.front()); slots != slots_[f].end())
                for (auto const& slot : slots->second) {
                    auto const followed = following(e, lines_.followers()[f], slot);
                    auto const all = leaf_names(followed, bound, tensors_.names());
                    if (all.empty() || stored_.tensor(all.front())->shape.product() == 1) continue;
                    try {
                        return shape(followed, bound);
                    } catch (const error& x) {  // another slot may be complete
                        if (x.code() != make_error_code(errc::missing_key)) throw;
                    }
                }
        return shape(e, bound);
    }
    /// Adds what is stored beside each.
    std::vector<std::string> with_followers(std::vector<std::string> leaves) const {
        for (std::size_t i = 0, n = leaves.size(); i < n; ++i)
            for (std::size_t f = 0; f < slots_.size(); ++f)
                if (auto const slots = slots_[f].find(leaves[i]); slots != slots_[f].end()) {
                    auto const& patterns = lines_.followers()[f];
                    auto const param = *patterns.stored_prefix.off(leaves[i]);
                    for (auto const& slot : slots->second)
                        leaves.push_back(patterns.stored_beside(param, slot));
                }
        return leaves;
    }

    void make(std::size_t i, const captures& bound) {
        auto const& e = mapping_.lines()[i].made_of;
        auto const name = lines_.names()[i].fill(bound);
        auto const by = *lines_.find(name);
        if (by.line != i) {
            if (found_ != nullptr) found_->twice.push_back({name, by.line, i});
            return;
        }
        check_reads_back(lines_.names()[i], name, bound, by.bound);
        auto const leaves = leaf_names(e, bound, names_);
        if (leaves.empty() || any_stored(leaves)) {
            claim(name, leaves);
            if (auto const others = leaf_names(e, bound, unsupported_); others.empty())
                make_if_complete(name, e, bound, leaves);
            else
                refuse_if_asked(name, e, bound, others.front());
        }
        for (std::size_t f = 0; f < slots_.size(); ++f) {
            std::set<captures> slots;
            for (auto const& leaf : leaves)
                if (auto const some = slots_[f].find(leaf); some != slots_[f].end())
                    slots.insert(some->second.begin(), some->second.end());
            for (auto const& slot : slots)
                tolerate([&] { follow(name, e, bound, leaves, lines_.followers()[f], slot); });
        }
    }

    void make_one(const std::string& name, const expression& e, captures bound) {
        // What something is tied to has its own name too.
        auto& used = e.node().is_a(operation::tie) ? made_.tied : made_.used;
        if (e.node().is_a(operation::stored) || e.node().is_a(operation::tie)) {
            auto const& leaf = e.node().is_a(operation::tie) ? e.node().of() : e;
            if (leaf.node().is_a(operation::stored))
                if (auto from = leaf.node().name.fill(bound); stored_.value(from) != nullptr) {
                    used.insert(from);
                    made_.values[name] = {std::move(from), {}};
                    return;
                }
        }
        evaluation evaluate(tensors_, name);
        evaluate.suggests = made_.incomplete.size() < unmade_names::most_searches;
        auto t = evaluate(e, bound);
        bool requires_grad = false;
        for (auto const* const from : evaluate.used()) {
            used.insert(from->name);
            requires_grad = requires_grad || stored_.tensor(from->name)->requires_grad;
        }
        made_.tensors[name] = {t.type, std::move(t.shape), requires_grad, std::move(t.pieces), {}};
    }

    /// Of what is partly made of a tensor that cannot be read, the rest is not loaded either: a
    /// state that does not have the name can be loaded.
    void refuse_if_asked(const std::string& name, const expression& e, const captures& bound,
                         const std::string& other) {
        auto const& type = stored_.unsupported.find(other)->second.type;
        if (found_ != nullptr)
            throw error(errc::unsupported, {.fqn = name,
                                            .expected = "stored tensors that can be read",
                                            .found = "'" + other + "' (" + type + ")"});
        made_.unreadable.emplace(name, "made of '" + other + "' (" + type + ")");
        for (auto const& leaf : needed_of(e, bound))
            if (stored_.entries.contains(leaf)) made_.used.insert(leaf);
    }

    /// The same of what lacks a part.
    void make_if_complete(const std::string& name, const expression& e, const captures& bound,
                          const std::vector<std::string>& leaves) {
        try {
            make_one(name, e, bound);
        } catch (const error& x) {
            lacks_part(x, leaves);
        }
    }
    /// What is there of it may pass.
    void lacks_part(const error& e, const std::vector<std::string>& leaves) {
        if (found_ != nullptr || e.code() != make_error_code(errc::missing_key)) throw e;
        auto const& why = e.context();
        made_.incomplete.emplace(why.fqn, unmade_name{why.expected, why.found});
        for (auto const& leaf : leaves)
            if (stored_.entries.contains(leaf)) parts_.insert(leaf);
    }

    /// Makes one tensor or value that belongs to a parameter.
    /// @param leaves  What the parameter is made of.
    void follow(const std::string& param, const expression& e, const captures& bound,
                const std::vector<std::string>& leaves, const follower_patterns& f,
                const captures& slot) {
        auto const known_as = f.prefix.off(param);
        if (!known_as) return;  // another one that is made of the same, e.g. an average
        auto const name = f.name_beside(*known_as, slot);
        if (lines_.find(name)) return;  // it has a line of its own
        auto const in_state = [&](const std::string& p) {
            return p == param || stored_.entries.contains(p);
        };
        // Of two followers, a save takes the first, and a load what is stored.
        if (auto const read = lines_.reading(name, side::target, in_state); read->of == &f)
            check_reads_back(f.name, name, f.captures_of(*known_as, slot),
                             f.captures_of(read->param, read->slot));
        std::vector<std::string> stored;
        std::string there, lacking;
        std::size_t values = 0, single = 0, like_parameter = 0;
        for (auto const& leaf : leaves) {
            auto const stored_as = f.stored_prefix.off(leaf);
            if (!stored_as)
                throw error(errc::invalid_argument,
                            {.fqn = name,
                             .expected = "a parameter of stored names that follow can tell, as " +
                                         leaves.front() + " is",
                             .found = leaf});
            stored.push_back(f.stored_beside(*stored_as, slot));
            auto const* const t = stored_.tensor(stored.back());
            auto const* const p = stored_.tensor(leaf);
            if (t != nullptr && (p == nullptr || p->shape == t->shape)) ++like_parameter;
            if (t != nullptr && t->shape.product() == 1) ++single;
            if (stored_.value(stored.back()) != nullptr) ++values;
            auto const is_stored = t != nullptr || stored_.value(stored.back()) != nullptr;
            if (auto& first = is_stored ? there : lacking; first.empty()) first = stored.back();
        }
        if (!lacking.empty())
            return lacks_part(
                error(errc::missing_key,
                      {.fqn = name, .expected = lacking + " beside " + there, .found = "none"}),
                stored);
        claim(name, stored);
        if (needed_of(e, bound).empty()) made_.if_asked.insert(name);
        auto const n = leaves.size();
        std::vector<std::string> const rest(stored.begin() + 1, stored.end());
        // What a constant is only like is not used up by it: it passes too.
        auto const use = [&] {
            if (e.node().is_a(operation::tie)) made_.tied.insert(stored.begin(), stored.end());
            auto const needed = needed_of(e, bound);
            for (std::size_t i = 0; i < n; ++i)
                if (needed.contains(leaves[i])) made_.used.insert(stored[i]);
        };
        if (values == n) {
            use();
            made_.values[name] = {stored.front(), rest};
        } else if (like_parameter == n && (single != n || all_stored(leaves))) {
            make_if_complete(name, following(e, f, slot), bound, stored);
        } else if (single == n) {
            use();
            auto t = pieced_tensor::whole(tensors_.find(stored.front())->second);
            auto const requires_grad = stored_.tensor(stored.front())->requires_grad;
            made_.tensors[name] = {t.type, t.shape, requires_grad, std::move(t.pieces), rest};
        } else {
            throw error(errc::shape_mismatch,
                        {.fqn = name,
                         .expected = "tensors of the shapes of '" + param + "', or single numbers",
                         .found = described(stored),
                         .remedy = "Set an expression for this name."});
        }
    }

    /// The stored names whose elements an expression needs.
    std::set<std::string> needed_of(const expression& e, const captures& bound) const {
        std::set<std::string> needed;
        if (e.node().is_a(operation::constant_like) || e.node().is_a(operation::tie)) return needed;
        if (e.node().is_a(operation::stored)) {
            auto const names = leaf_names(e, bound, names_);
            needed.insert(names.begin(), names.end());
        }
        for (auto const& part : e.node().parts) needed.merge(needed_of(part, bound));
        return needed;
    }

    /// @throws error if something else is made under the name
    void claim(const std::string& name, const std::vector<std::string>& of) {
        auto const [at, is_new] = claims_.try_emplace(name, of);
        if (is_new) return;
        auto const shown = [](const std::vector<std::string>& all) {
            return all.empty() ? "a constant" : "'" + all.front() + "'";
        };
        throw error(errc::invalid_argument, {.fqn = name,
                                             .expected = "one thing that becomes it",
                                             .found = shown(at->second) + " and " + shown(of),
                                             .remedy = "Give one of them a line of its own."});
    }

    bool any_stored(const std::vector<std::string>& names) const {
        return std::any_of(names.begin(), names.end(),
                           [&](auto const& n) { return stored_.entries.contains(n); });
    }
    bool all_stored(const std::vector<std::string>& names) const {
        return std::all_of(names.begin(), names.end(),
                           [&](auto const& n) { return stored_.tensor(n) != nullptr; });
    }

    std::string described(const std::vector<std::string>& names) const {
        std::string text;
        for (auto const& n : names) {
            auto const* const t = stored_.tensor(n);
            text += (text.empty() ? "" : ", ") +
                    (t != nullptr ? cairn::to_string(t->shape) : "a value") + " of " + n;
        }
        return text;
    }

    /// What belongs to parameters that pass through.
    void follow_unmapped(std::size_t f) {
        for (auto const& [named, slots] : slots_[f]) {
            auto const& param = named;  // clang 14 captures no structured bindings
            if (made_.used.contains(param) || mapping_.others() != other_names::pass) continue;
            if (lines_.find(param)) continue;  // the state's parameter is made of others
            auto const e = stored_as_it_is(param);
            auto const& patterns = lines_.followers()[f];
            auto const known_as = patterns.prefix.off(param);
            if (!known_as) continue;
            for (auto const& slot : slots) {
                auto const from = patterns.stored_beside(*patterns.stored_prefix.off(param), slot);
                if (made_.used.contains(from) || patterns.name_beside(*known_as, slot) == from)
                    continue;
                tolerate([&] { follow(param, e, {}, {param}, patterns, slot); });
            }
        }
    }

    void pass(const std::string& name) {
        if (made_.used.contains(name)) return;
        bool const is_tied = made_.tied.contains(name);
        if (mapping_.others() == other_names::refuse && !is_tied && !parts_.contains(name))
            throw error(errc::unexpected_key,
                        {.fqn = name,
                         .expected = "an expression that uses each stored name",
                         .found = "none that uses this one"});
        if (mapping_.others() != other_names::pass) {
            made_.used.insert(name);
        } else if (made_.tensors.contains(name) || made_.values.contains(name)) {
            if (!is_tied) made_.hidden.insert(name);
        } else if (auto const by =
                       is_tied && !made_.incomplete.contains(name) ? std::nullopt : line_of(name)) {
            auto const& e = mapping_.lines()[by->line].made_of;
            (e.node().is_a(operation::leave_out) ? made_.used : made_.hidden).insert(name);
        }
    }

    /// Returns the line that makes a name of the state, or the parameter that it belongs to: as a
    /// save reads it, first of a parameter that is there.
    std::optional<lines::made_by> line_of(const std::string& name) const {
        if (auto by = lines_.find(name)) return by;
        auto const has_line = [&](const std::string& p) { return lines_.find(p).has_value(); };
        auto const is_there = [&](const std::string& p) {
            return made_.tensors.contains(p) || made_.values.contains(p) ||
                   (stored_.entries.contains(p) && !made_.used.contains(p) && !has_line(p));
        };
        auto read = lines_.reading(name, side::target, is_there);
        if (read && !is_there(read->of->prefix.before(read->param)))
            read = lines_.reading(name, side::target, has_line);
        if (!read) return std::nullopt;
        return lines_.find(read->of->prefix.before(read->param));
    }

    const mapping& mapping_;
    const metadata& stored_;
    lines lines_;
    findings* found_;
    sources tensors_;
    name_list names_{};        ///< What is stored, and parameters of optimizer state.
    name_list unsupported_{};  ///< What is stored and cannot be read.
    /// For each follower, what is stored beside each parameter.
    std::vector<std::map<std::string, std::set<captures>, std::less<>>> slots_{};
    /// What each name is made of.
    std::map<std::string, std::vector<std::string>, std::less<>> claims_{};
    std::set<std::string, std::less<>> parts_{};  ///< Stored names, of what is incomplete.
    mapped made_{};
};

CAIRN_DECL mapped to_state(const mapping& m, const metadata& stored, findings* found) {
    return state_builder(m, stored, found).build();
}

}  // namespace cairn::map::detail

#endif
