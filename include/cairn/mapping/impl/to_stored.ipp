// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_TO_STORED_IPP
#define CAIRN_MAPPING_IMPL_TO_STORED_IPP

#include <cairn/mapping/detail/mapped.hpp>

#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/lines.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/mapping/detail/stored_shapes.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// A save's direction: finds the shapes of what will be stored, makes the state of it as a load
/// would, and inverts the pieces.
class stored_builder {
public:
    stored_builder(const mapping& m, const state_types& state, bool all_names)
        : mapping_(m), state_(state), all_names_(all_names), lines_(m) {}

    mapped build() && {
        claims_.reserve(state_.size());
        std::vector<state_types::const_pointer> others;
        for (auto const& one : state_)
            if (auto by = lines_.find(one.first))
                add(one.first, one.second, std::move(*by));
            else
                others.push_back(&one);
        for (auto const* const one : others) add_other(one->first, one->second);
        for (auto& c : ties_) add_tie(std::move(c));
        for (auto& [name, stored] : tied_values_)
            if (!passes(stored)) add_value(name, std::move(stored));
        auto const stored = shapes_.resolved();
        of_source_.reserve(stored.size());
        for (auto const& one : stored) {
            auto const& s = one.second;
            auto const at = made_.tensors.emplace_hint(
                made_.tensors.end(), s->name, mapped_tensor{s->type, s->shape, false, {}, {}});
            of_source_.emplace(s.get(), &at->second);
        }
        for (auto const& c : copied_) check_copied(c, stored);
        for (auto& c : claims_) invert(c, stored);
        for (auto& c : tied_) check_tie(c, stored);
        for (auto const& [name, t] : made_.tensors) check(name, t);
        check_passing();
        return std::move(made_);
    }

private:
    /// A tensor of the state that is stored as an expression says.
    struct claim {
        std::string name;
        tensor_type type;
        expression made_of;
        captures bound;
    };

    /// A single number that is stored beside each tensor that a parameter becomes.
    struct copied {
        std::string name;
        index_vector shape;
        std::vector<std::string> leaves;
    };

    void add(const std::string& name, const std::optional<tensor_type>& type, lines::made_by by) {
        auto const& e = mapping_.lines()[by.line].made_of;
        made_.used.insert(made_.used.end(), name);
        for_each_leaf(e, by.bound, [](const node& n, const captures& bound) {
            if (!n.name.is_literal()) check_reads_back(n.name, n.name.fill(bound), bound);
        });
        auto const& n = e.node();
        if (n.is_a(operation::leave_out)) return;
        auto const& inner = n.is_a(operation::tie) ? n.of() : e;
        if (!type) {
            if (!inner.node().is_a(operation::stored))
                complaint{name}.fail(errc::kind_mismatch, e, "a tensor", "a value");
            auto stored = inner.node().name.fill(by.bound);
            if (!n.is_a(operation::tie)) return add_value(name, std::move(stored));
            tied_values_.emplace_back(name, std::move(stored));
            return;
        }
        claim c{name, *type, e, std::move(by.bound)};
        if (n.is_a(operation::tie)) return ties_.push_back(std::move(c));
        add_claim(std::move(c));
    }

    void add_claim(claim c) {
        // All of it is constant: nothing is stored, and what it is like need not be there.
        if (c.made_of.node().is_a(operation::constant_like)) return;
        shapes_.add(c.name, c.made_of, c.bound, c.type.shape, c.type.type);
        claims_.push_back(std::move(c));
    }

    /// What another name stores is not stored twice.
    void add_tie(claim c) {
        made_.tied.insert(c.name);
        stored_shapes alone;
        auto const leaves = alone.add(c.name, c.made_of, c.bound, c.type.shape, c.type.type);
        if (leaves.empty()) {  // constants: nothing is stored
            auto inner = c.made_of.node().of();
            c.made_of = std::move(inner);
            return add_claim(std::move(c));
        }
        bool const others_have_it =
            std::all_of(leaves.begin(), leaves.end(),
                        [&](auto const* leaf) { return shapes_.has(*leaf) || passes(*leaf); });
        if (!others_have_it) return add_claim(std::move(c));
        for (auto const* leaf : leaves) tied_to_[c.name].push_back(*leaf);
        tied_.push_back(std::move(c));
    }

    /// What is not stored is not lost only if another name has all of it.
    void check_tie(claim& c, const sources& stored) {
        auto const& leaves = tied_to_.find(c.name)->second;
        sources known;
        for (auto const& leaf : std::set<std::string>(leaves.begin(), leaves.end())) {
            auto const made = stored.find(leaf);
            auto const passing = state_.find(leaf);
            if (made != stored.end())
                known.add(*made->second);
            else if (passing != state_.end() && passing->second)
                known.add({leaf, passing->second->type, passing->second->shape});
        }
        auto const shape = evaluation(known, c.name)(c.made_of, c.bound).shape;
        if (shape == c.type.shape) return;
        auto const& first = leaves.front();
        auto const& by = shapes_.has(first) ? shapes_.told_by(first) : first;
        complaint{c.name}.fail(errc::shape_mismatch, c.made_of,
                               to_string(shape) + " as '" + by + "', which has the same elements",
                               to_string(c.type.shape),
                               "Give it an expression of its own, without tie.");
    }

    void add_value(const std::string& name, std::string stored) {
        auto const [at, is_new] =
            made_.values.try_emplace(std::move(stored), mapped_value{name, {}});
        if (!is_new) at->second.equals.push_back(name);
    }

    /// A name without a line: it may follow a parameter.
    void add_other(const std::string& name, const std::optional<tensor_type>& type) {
        auto const is_there = [&](const std::string& p) { return state_.find(p) != state_.end(); };
        auto read = lines_.reading(name, side::target, is_there);
        if (read && !is_there(read->of->prefix.before(read->param)))
            read = lines_.reading(name, side::target,
                                  [&](const std::string& p) { return lines_.find(p).has_value(); });
        if (read) {
            made_.used.insert(name);
            return add_follower(name, type, *read->of, read->of->prefix.before(read->param),
                                read->slot);
        }
        if (mapping_.others() == other_names::refuse)
            throw error(errc::invalid_state,
                        {.fqn = name,
                         .expected = "an expression for each name of the state",
                         .found = "none for this one"});
        if (mapping_.others() == other_names::leave_out) made_.used.insert(name);
    }

    void add_follower(const std::string& name, const std::optional<tensor_type>& type,
                      const follower_patterns& f, const std::string& param, const captures& slot) {
        auto by = lines_.find(param);
        auto const e = by ? mapping_.lines()[by->line].made_of : stored_as_it_is(param);
        bool const left_out = !by && mapping_.others() == other_names::leave_out;
        if (left_out || e.node().is_a(operation::leave_out)) return;
        auto bound = by ? std::move(by->bound) : captures();
        for_each_leaf(e, bound, [&](const node& n, const captures& all) {
            auto const full = n.name.fill(all);
            if (auto const leaf = f.stored_prefix.off(full))
                check_stored_beside(f, full, f.stored_beside(*leaf, slot),
                                    f.captures_of(*leaf, slot));
        });
        auto const p = state_.find(param);
        bool const known = p != state_.end() && p->second;
        if (type && (known ? p->second->shape == type->shape : type->shape.product() != 1)) {
            auto followed = following(e, f, slot);
            if (!known) check_unknown(name, *type, param, e);
            claim c{name, *type, std::move(followed), std::move(bound)};
            if (e.node().is_a(operation::tie)) return ties_.push_back(std::move(c));
            return add_claim(std::move(c));
        }
        if (type && type->shape.product() != 1)
            throw error(errc::shape_mismatch, {.fqn = name,
                                               .expected = to_string(p->second->shape) + " as '" +
                                                           param + "', or a single number",
                                               .found = to_string(type->shape),
                                               .remedy = "Set an expression for this name."});
        auto leaves = leaves_of(name, param, e, bound);
        for (auto const& leaf : leaves) {
            auto const stored_as = f.stored_prefix.off(leaf);
            if (!stored_as)
                throw error(errc::invalid_argument,
                            {.fqn = name,
                             .expected = "a parameter of stored names that follow can tell",
                             .found = "'" + param + "', which is stored as '" + leaf + "'"});
            add_copy(name, type, f.stored_beside(*stored_as, slot));
        }
        if (type) copied_.push_back({name, type->shape, std::move(leaves)});
    }

    /// A load takes what has the shape of a stored parameter for a part of what is wanted.
    void check_copied(const copied& c, const sources& stored) const {
        for (auto const& leaf : c.leaves) {
            auto const made = stored.find(leaf);
            if (made == stored.end() || made->second->shape != c.shape) return;
        }
        if (c.leaves.empty()) return;
        throw error(errc::shape_mismatch,
                    {.fqn = c.name,
                     .expected = "another shape than that of the stored parameter '" +
                                 c.leaves.front() + "', for a load to read it as a single number",
                     .found = to_string(c.shape),
                     .remedy = "Set an expression for this name."});
    }

    /// A load must read what is stored beside a parameter as what belongs to it.
    void check_stored_beside(const follower_patterns& f, const std::string& param,
                             const std::string& name, const captures& by) {
        auto const known = [&](const std::string& p) {
            return shapes_.has(p) || (passes(p) && state_.find(p) != state_.end());
        };
        if (!known(param)) return check_reads_back(f.stored, name, by);
        auto const read = lines_.reading(name, side::source, known);
        if (read->of == &f)
            return check_reads_back(f.stored, name, by, f.captures_of(read->param, read->slot));
        throw error(errc::invalid_argument,
                    {.fqn = name,
                     .expected = "to be read as what belongs to '" + param + "'",
                     .found = "'" + read->param + "', by another follow line",
                     .remedy = "Let follow lines differ in the names that they match."});
    }

    /// State of a parameter that is not there is divided as it only if it may have its shape:
    /// what has several shapes is factored, or has tables of its own.
    void check_unknown(const std::string& name, const tensor_type& type, const std::string& param,
                       const expression& e) {
        if (e.node().is_a(operation::stored)) return;  // not divided
        auto const& other = follows_unknown_.try_emplace(param, name).first->second;
        auto const& shape = state_.find(other)->second->shape;
        if (shape != type.shape)
            throw error(
                errc::shape_mismatch,
                {.fqn = name,
                 .expected = to_string(shape) + " as '" + other + "', since '" + param +
                             "' is not saved, which tells its shape",
                 .found = to_string(type.shape),
                 .remedy = "Set an expression for this name, or save '" + param + "' with it."});
    }

    /// The stored names of a parameter.
    std::vector<std::string> leaves_of(const std::string& name, const std::string& param,
                                       const expression& e, captures bound) {
        auto const p = state_.find(param);
        if (p != state_.end() && p->second) {
            stored_shapes alone;
            std::vector<std::string> names;
            for (auto const* leaf : alone.add(param, e, bound, p->second->shape, p->second->type))
                names.push_back(*leaf);
            return names;
        }
        if (!has(e, operation::stack) && !has(e, operation::constant_like)) {
            std::vector<std::string> names;
            for_each_leaf(e, bound, [&](const node& n, const captures& all) {
                names.push_back(n.name.fill(all));
            });
            return names;
        }
        throw error(errc::invalid_state,
                    {.fqn = name,
                     .expected = "the parameter '" + param + "' in the state, whose stored names " +
                                 "it follows",
                     .found = "none"});
    }

    /// A single number is stored for each of the tensors that a parameter becomes.
    void add_copy(const std::string& name, const std::optional<tensor_type>& type,
                  const std::string& stored) {
        if (!type) return add_value(name, stored);
        auto const [at, is_new] = copies_.try_emplace(stored);
        auto& t = at->second;
        if (is_new)
            t = {type->type,
                 type->shape,
                 false,
                 {whole_piece(std::make_shared<source>(source{name, type->type, type->shape}))},
                 {},
                 true};
        else
            t.equals.push_back(name);
    }

    void invert(claim& c, const sources& stored) {
        bool const like_others = has(c.made_of, operation::constant_like);
        evaluation evaluate(like_others ? with_passing(stored) : stored, c.name);
        std::vector<std::pair<piece, double>> dropped;
        evaluate.dropped = [&](std::vector<piece> around, double value) {
            for (auto& p : around) dropped.emplace_back(std::move(p), value);
        };
        auto const made = evaluate(c.made_of, c.bound);
        if (made.shape != c.type.shape)
            complaint{c.name}.fail(errc::shape_mismatch, c.made_of, to_string(made.shape),
                                   to_string(c.type.shape));
        auto const from = std::make_shared<source>(source{c.name, c.type.type, c.type.shape});
        for (auto const& p : made.pieces)
            if (!p.is_constant()) add_piece(*p.from, inverted(p, from), c);
        for (auto const& [p, value] : dropped) {
            if (p.is_constant()) continue;
            if (!has_number(p.from->type, value))
                complaint{c.name}.fail(errc::invalid_argument, c.made_of,
                                       "a number that " + std::string(name_of(p.from->type)) +
                                           " of " + p.from->name + " has",
                                       number_text(value));
            auto q = inverted(p, from);
            add_fill(*p.from, constant_of(std::move(q), value), c);
        }
    }

    /// Constants may be like what is stored under its own name too.
    const sources& with_passing(const sources& stored) {
        if (with_passing_) return *with_passing_;
        auto& all = with_passing_.emplace(stored);
        for (auto const& [name, type] : state_)
            if (type && passes(name) && stored.find(name) == stored.end())
                all.add({name, type->type, type->shape});
        return all;
    }

    static piece constant_of(piece p, double value) {
        p.from = nullptr;
        p.value = value;
        p.source_offsets = {};
        for (auto& a : p.axes) a.source_dim = 0, a.source_step = 0;
        simplify(p);
        return p;
    }

    /// Adds what no other name fills with the same value.
    void add_fill(const source& stored, piece p, const claim& c) {
        std::vector<piece> left{std::move(p)};
        for (auto const& other : of_source_.at(&stored)->pieces) {
            if (!other.is_constant()) continue;
            std::vector<piece> outside;
            for (auto const& q : left) {
                if (!meet(q, other, side::target)) {
                    outside.push_back(q);
                    continue;
                }
                bool const same =
                    q.value == other.value || (std::isnan(q.value) && std::isnan(other.value));
                if (!same || !other.fills_bounds(side::target))
                    complaint{c.name}.fail(
                        errc::unsupported, c.made_of,
                        "one value for what " + stored.name + " lacks",
                        std::to_string(q.value) + " and " + std::to_string(other.value),
                        "Pass the same value to each clip of it.");
                cut_outside(q, side::target, other.bounds(side::target), outside);
            }
            left = std::move(outside);
        }
        for (auto& q : left) add_piece(stored, std::move(q), c);
    }

    void add_piece(const source& stored, piece p, const claim& c) {
        auto& t = *of_source_.at(&stored);
        if (!p.is_constant() && !mapping_.allows_narrowing() && !holds(t.type, p.from->type))
            complaint{c.name}.fail(errc::dtype_mismatch, c.made_of,
                                   "a dtype with the bits of " + std::string(name_of(p.from->type)),
                                   std::string(name_of(t.type)) + " of " + stored.name,
                                   "Pass mapping::allow_narrowing() to store fewer bits.");
        t.pieces.push_back(std::move(p));
    }

    /// No element may come from two places, and if all names are known, each must come from one.
    void check(const std::string& name, const mapped_tensor& t) const {
        check_apart(name, t.pieces);
        std::int64_t covered = 0;
        for (auto const& p : t.pieces) covered += p.volume();
        if (!all_names_ || covered == t.shape.product()) return;
        auto const& by = shapes_.told_by(name);
        throw error(
            errc::unsupported,
            {.fqn = by,
             .expected = "all elements of the stored tensor " + name + ", " + to_string(t.shape) +
                         ", of which " + expression_of(by) + " is part",
             .found = std::to_string(covered) + " of " + std::to_string(t.shape.product()) +
                      " in the state",
             .remedy = "Save what has the others too, or use clip with a value."});
    }

    void check_apart(const std::string& name, const std::vector<piece>& pieces) const {
        if (pieces.size() < 2) return;
        std::vector<std::pair<box, const piece*>> sorted;
        for (auto const& p : pieces) sorted.emplace_back(p.bounds(side::target), &p);
        auto const d = most_divided(sorted);
        std::sort(sorted.begin(), sorted.end(), [d](auto const& a, auto const& b) {
            return !a.first.offsets.empty() && a.first.offsets[d] < b.first.offsets[d];
        });
        for (auto a = sorted.begin(); a != sorted.end(); ++a)
            for (auto b = a + 1; b != sorted.end(); ++b) {
                if (!b->first.offsets.empty() && b->first.offsets[d] >= a->first.end(d)) break;
                if (!meet(*a->second, *b->second, side::target)) continue;
                auto const& first = a->second->is_constant() ? *b->second : *a->second;
                auto const& other = &first == a->second ? *b->second : *a->second;
                throw error(
                    errc::unsupported,
                    {.fqn = first.from->name,
                     .expected = "each element of the stored tensor " + name + " once, for " +
                                 expression_of(first.from->name),
                     .found = other.is_constant() ? "padding there too"
                                                  : "'" + other.from->name + "' there too",
                     .remedy = "Use tie for a name that has the same elements as another."});
            }
    }

    /// The dimension in which most boxes begin at other places.
    static std::size_t most_divided(const std::vector<std::pair<box, const piece*>>& all) {
        std::size_t best = 0, most = 0;
        for (std::size_t d = 0; !all.empty() && d < all.front().first.rank(); ++d) {
            std::set<std::int64_t> starts;
            for (auto const& [b, p] : all) starts.insert(b.offsets[d]);
            if (starts.size() > most) {
                most = starts.size();
                best = d;
            }
        }
        return best;
    }

    std::string expression_of(const std::string& name) const {
        auto const line = lines_.find(name);
        return line ? shown(mapping_.lines()[line->line].made_of) : "its parameter's expression";
    }

    bool passes(const std::string& name) const {
        return state_.contains(name) && !made_.used.contains(name);
    }

    /// Names that pass through must not be those of something that is made.
    void check_passing() {
        made_.tensors.merge(copies_);
        auto const refuse_if = [](bool twice, const std::string& name) {
            if (twice)
                throw error(errc::invalid_state,
                            {.fqn = name,
                             .expected = "one thing to be stored under this name",
                             .found = "two of the state",
                             .remedy = "Set an expression for this name too."});
        };
        for (auto const& one : state_)
            refuse_if(!made_.used.contains(one.first) &&
                          (made_.tensors.contains(one.first) || made_.values.contains(one.first)),
                      one.first);
        for (auto const& made : made_.values)
            refuse_if(made_.tensors.contains(made.first), made.first);
        // Copies that are left have the name of something else that is made.
        for (auto const& left : copies_) refuse_if(true, left.first);
    }

    const mapping& mapping_;
    const state_types& state_;
    bool all_names_;
    lines lines_;
    stored_shapes shapes_{};
    std::optional<sources> with_passing_{};
    std::vector<claim> claims_{}, ties_{}, tied_{};
    std::vector<std::pair<std::string, std::string>> tied_values_{};  ///< With stored names.
    std::map<std::string, std::vector<std::string>, std::less<>> tied_to_{};  ///< Stored names.
    std::unordered_map<const source*, mapped_tensor*> of_source_{};           ///< Those of `made_`.
    std::map<std::string, mapped_tensor, std::less<>> copies_{};
    std::vector<copied> copied_{};
    /// By parameters that are not in the state: the first name that follows.
    std::map<std::string, std::string, std::less<>> follows_unknown_{};
    mapped made_{};
};

CAIRN_DECL mapped to_stored(const mapping& m, const state_types& state, bool all_names) {
    return stored_builder(m, state, all_names).build();
}

}  // namespace cairn::map::detail

#endif
