// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_STORED_SHAPES_IPP
#define CAIRN_MAPPING_IMPL_STORED_SHAPES_IPP

#include <cairn/mapping/detail/stored_shapes.hpp>

#include <cairn/mapping/detail/node.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL extents extents_of(const index_vector& shape) {
    extents all;
    for (auto const n : shape) all.push_back({n, false});
    return all;
}

CAIRN_DECL std::string to_string(const extents& all) {
    index_vector numbers;
    for (auto const& e : all) numbers.push_back(e.n);
    return to_string(numbers);
}

/// Returns a product of lengths; -1, not known, if no tensor can be so long.
CAIRN_DECL std::int64_t product(std::int64_t a, std::int64_t b) {
    return is_possible({a, b}) ? a * b : -1;
}

/// Their product, if all are known.
CAIRN_DECL extent product(extents::const_iterator begin, extents::const_iterator end) {
    extent all{1, false};
    for (auto e = begin; e != end; ++e) {
        if (!e->known() || !all.known()) return {};
        all.n = product(all.n, e->n);
        all.least = all.least || e->least;
    }
    return all;
}

/// Joins what two say of a length; false if they contradict each other.
CAIRN_DECL bool join(extent& a, const extent& b) {
    if (!b.known()) return true;
    if (!a.known() || (a.least && (b.n >= a.n))) {
        a = b;
        return true;
    }
    return b.least ? b.n <= a.n : a.n == b.n;
}

CAIRN_DECL std::vector<const std::string*> stored_shapes::add(const std::string& fqn,
                                                              const expression& e, captures& bound,
                                                              const index_vector& shape,
                                                              dtype type) {
    about_.fqn = fqn;
    type_ = type;
    leaves_.clear();
    require(e, bound, extents_of(shape));
    return std::exchange(leaves_, {});
}

CAIRN_DECL void stored_shapes::require(const expression& e, captures& bound, extents wanted) {
    auto const& n = e.node();
    switch (n.is) {
        case operation::stored: return require_leaf(e, bound, std::move(wanted));
        case operation::concat: return require_parts(e, bound, wanted);
        case operation::interleave: return require(in_groups(n), bound, std::move(wanted));
        case operation::stack: return require_each(e, bound, std::move(wanted));
        case operation::constant:
        case operation::constant_like:
        case operation::leave_out: return;  // nothing is stored
        default: break;
    }
    require(n.of(), bound, wanted_of_operand(e, bound, std::move(wanted)));
}

CAIRN_DECL void stored_shapes::require_leaf(const expression& e, const captures& bound,
                                            extents wanted) {
    auto const& n = e.node();
    std::string memory;
    auto const& name = n.name.fill(bound, memory);
    auto const add = [&](const extents& more, const std::string& whose) {
        bool fits = more.size() == wanted.size();
        for (std::size_t d = 0; fits && d < wanted.size(); ++d) fits = join(wanted[d], more[d]);
        if (!fits)
            about_.fail(errc::shape_mismatch, e, to_string(more) + whose + " of " + name,
                        to_string(wanted));
    };
    if (!n.numbers.empty()) add(extents_of(n.numbers), "");
    auto const [at, is_new] = found_.try_emplace(name);
    if (is_new) {
        at->second = {std::move(wanted), n.type, about_.fqn, type_};
    } else {
        add(at->second.shape, " by '" + at->second.told_by + "'");
        at->second.shape = wanted;
        if (!at->second.type) at->second.type = n.type;
    }
    leaves_.push_back(&at->first);
}

CAIRN_DECL void stored_shapes::require_parts(const expression& e, captures& bound,
                                             const extents& wanted) {
    auto const& n = e.node();
    auto const d = about_.dim(e, n.dim, wanted.size());
    extents lengths(n.parts.size());
    std::int64_t rest = wanted[d].least ? -1 : wanted[d].n;
    std::int64_t divided_by = 0;
    for (std::size_t i = 0; i < n.parts.size(); ++i) {
        auto const shape = n.numbers.empty() ? told(n.parts[i]) : std::nullopt;
        if (shape && shape->size() == wanted.size() && (*shape)[d].known())
            lengths[i] = (*shape)[d];
        if (lengths[i].known() && rest != -1)
            rest = std::max<std::int64_t>(rest - lengths[i].n, 0);
        else if (!lengths[i].known())
            divided_by += n.numbers.empty() ? 1 : n.numbers[i];
    }
    for (std::size_t i = 0; i < n.parts.size(); ++i) {
        if (!lengths[i].known() && rest != -1) {
            if (rest % divided_by != 0)
                about_.fail(errc::shape_mismatch, e,
                            "a multiple of " + std::to_string(divided_by) + " in dimension " +
                                std::to_string(d),
                            to_string(wanted),
                            "Pass proportions to concat, or the shapes of parts to stored.");
            lengths[i].n = rest / divided_by * (n.numbers.empty() ? 1 : n.numbers[i]);
        }
        auto of_part = wanted;
        of_part[d] = lengths[i];
        require(n.parts[i], bound, of_part);  // g++ 12 takes a move for one beyond its memory
    }
}

CAIRN_DECL void stored_shapes::require_each(const expression& e, captures& bound, extents wanted) {
    auto const& n = e.node();
    auto const d = about_.dim(e, n.dim, wanted.size());
    auto const count = wanted[d].n;
    if (count == -1)
        about_.fail(errc::invalid_argument, e, "a length that the state tells", to_string(wanted));
    if (count > std::int64_t{most_operations} - stacked_)
        about_.fail(errc::unsupported, e, "at most " + std::to_string(most_operations) + " names",
                    std::to_string(count));
    stacked_ += count;
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(d));
    for (std::int64_t i = 0; i < count; ++i) {
        auto const before = bound.size();
        bound.bind(n.capture, std::to_string(i));
        require(n.of(), bound, wanted);
        bound.shrink(before);
    }
}

CAIRN_DECL extents stored_shapes::wanted_of_operand(const expression& e, captures& bound,
                                                    extents wanted) {
    using enum operation;
    auto const& n = e.node();
    auto const at = [&](std::size_t d) { return wanted.begin() + static_cast<std::ptrdiff_t>(d); };
    switch (n.is) {
        case unstack: {
            auto const d = about_.dim(e, n.dim, wanted.size() + 1);
            wanted.insert(at(d), {index_of(n, bound, about_.fqn) + 1, true});
            break;
        }
        case slice: wanted[about_.dim(e, n.dim, wanted.size())] = {n.numbers[1], true}; break;
        case part:
            if (auto& length = wanted[about_.dim(e, n.dim, wanted.size())]; length.known())
                length.n = product(length.n, n.numbers[1]);
            break;
        case transpose:
            std::swap(wanted[about_.dim(e, n.dim, wanted.size())],
                      wanted[about_.dim(e, n.other_dim, wanted.size())]);
            break;
        case permute: {
            if (n.numbers.size() != wanted.size())
                about_.fail(errc::shape_mismatch, e,
                            std::to_string(n.numbers.size()) + " dimensions", to_string(wanted));
            auto const result = wanted;
            for (std::size_t d = 0; d < result.size(); ++d)
                wanted[static_cast<std::size_t>(n.numbers[d])] = result[d];
            break;
        }
        case split_dim: {
            auto const rank = static_cast<int>(wanted.size() - n.numbers.size() + 1);
            if (wanted.size() < n.numbers.size() || n.dim >= rank || n.dim < -rank)
                about_.fail(errc::shape_mismatch, e, to_string(n.numbers), to_string(wanted));
            auto const d = about_.dim(e, n.dim, static_cast<std::size_t>(rank));
            auto const end = d + n.numbers.size();
            for (auto i = d; i < end; ++i)
                if (!wanted[i].known()) wanted[i].n = n.numbers[i - d];
            wanted[d] = product(at(d), at(end));
            wanted.erase(at(d + 1), at(end));
            break;
        }
        case merge_dims: {
            auto const rank = wanted.size() + n.numbers.size() - 1;
            auto const d = about_.dim(e, n.dim, rank);
            if (d >= wanted.size())
                about_.fail(errc::shape_mismatch, e, "such dimensions", to_string(wanted));
            auto sizes = extents_of(n.numbers);
            if (auto const words = told(n.of()); words && words->size() == rank)
                for (std::size_t i = 0; i < sizes.size(); ++i) join(sizes[i], (*words)[d + i]);
            auto const whole = wanted[d];
            std::int64_t known = 1;
            for (auto const& s : sizes)
                if (s.known() && known != -1) known = product(known, s.n);
            auto const unknown =
                std::count_if(sizes.begin(), sizes.end(), [](auto& s) { return !s.known(); });
            for (auto& s : sizes)
                if (!s.known() && unknown == 1 && whole.known() && known > 0)
                    s = {whole.n / known + (whole.n % known != 0 ? 1 : 0), whole.least};
            wanted.erase(at(d));
            wanted.insert(at(d), sizes.begin(), sizes.end());
            break;
        }
        case pad:
        case clip: {
            if (n.is == clip && !n.value)
                about_.fail(errc::unsupported, e, "something to store for what is dropped",
                            "nothing", "Pass a value to clip.");
            if (n.numbers.size() != wanted.size())
                about_.fail(errc::shape_mismatch, e, to_string(n.numbers), to_string(wanted));
            auto const words = told(n.of());
            for (std::size_t d = 0; d < wanted.size(); ++d)
                if (n.numbers[d] != -1)
                    wanted[d] = words && words->size() == wanted.size() ? (*words)[d] : extent();
            break;
        }
        case dequantise:
            about_.fail(errc::unsupported, e, "elements that can be stored",
                        "quantised ones, which a save does not compute",
                        "Use a mapping without dequantise for saves.");
        default: break;
    }
    return wanted;
}

CAIRN_DECL std::optional<extents> stored_shapes::told(const expression& e) const {
    using enum operation;
    auto const& n = e.node();
    switch (n.is) {
        case stored:
            if (n.numbers.empty()) return std::nullopt;
            return extents_of(n.numbers);
        case constant: return extents_of(n.numbers);
        case interleave: return told(in_groups(n));
        case concat: {
            std::optional<extents> all;
            extent length{0, false};
            for (auto const& p : n.parts) {
                auto const one = told(p);
                if (!one || one->empty() || (all && one->size() != all->size())) {
                    length = {};
                    continue;
                }
                auto const d = about_.dim(e, n.dim, one->size());
                if (!all) all = extents(one->size());
                for (std::size_t i = 0; i < all->size(); ++i)
                    if (i != d) join((*all)[i], (*one)[i]);
                if (!length.known() || !(*one)[d].known() || (*one)[d].n > most_elements - length.n)
                    length = {};
                else
                    length.n += (*one)[d].n;
            }
            if (all) (*all)[about_.dim(e, n.dim, all->size())] = length;
            return all;
        }
        case stack: {
            auto one = told(n.of());
            if (one) {
                auto const d = about_.dim(e, n.dim, one->size() + 1);
                one->insert(one->begin() + static_cast<std::ptrdiff_t>(d), extent());
            }
            return one;
        }
        default: return told_of_operand(e);
    }
}

CAIRN_DECL std::optional<extents> stored_shapes::told_of_operand(const expression& e) const {
    using enum operation;
    auto const& n = e.node();
    if (n.is == leave_out) return std::nullopt;
    auto known = told(n.of());
    if (n.is == pad || n.is == clip) {
        auto shape = extents_of(n.numbers);
        for (std::size_t d = 0; known && known->size() == shape.size() && d < shape.size(); ++d)
            if (!shape[d].known()) shape[d] = (*known)[d];
        return shape;
    }
    if (!known) return known;
    auto& shape = *known;
    auto const at = [&](std::size_t d) { return shape.begin() + static_cast<std::ptrdiff_t>(d); };
    switch (n.is) {
        case unstack: shape.erase(at(about_.dim(e, n.dim, shape.size()))); break;
        case slice:
            shape[about_.dim(e, n.dim, shape.size())] = {n.numbers[1] - n.numbers[0], false};
            break;
        case part:
            if (auto& length = shape[about_.dim(e, n.dim, shape.size())]; length.known())
                length.n /= n.numbers[1];
            break;
        case transpose:
            std::swap(shape[about_.dim(e, n.dim, shape.size())],
                      shape[about_.dim(e, n.other_dim, shape.size())]);
            break;
        case permute: {
            if (n.numbers.size() != shape.size()) return std::nullopt;
            auto const of = shape;
            for (std::size_t d = 0; d < of.size(); ++d)
                shape[d] = of[static_cast<std::size_t>(n.numbers[d])];
            break;
        }
        case split_dim: {
            auto const d = about_.dim(e, n.dim, shape.size());
            auto const whole = shape[d];
            auto sizes = extents_of(n.numbers);
            std::int64_t product = 1;
            for (auto const& s : sizes) product *= s.known() ? s.n : 1;
            for (auto& s : sizes)
                if (!s.known() && whole.known()) s.n = whole.n / product;
            shape.erase(at(d));
            shape.insert(at(d), sizes.begin(), sizes.end());
            break;
        }
        case merge_dims: {
            auto const d = about_.dim(e, n.dim, shape.size());
            auto const end = d + n.numbers.size();
            if (end > shape.size()) return std::nullopt;
            for (auto i = d; i < end; ++i) join(shape[i], {n.numbers[i - d], false});
            shape[d] = product(at(d), at(end));
            shape.erase(at(d + 1), at(end));
            break;
        }
        default: break;
    }
    return known;
}

CAIRN_DECL sources stored_shapes::resolved() const {
    sources all;
    for (auto const& [name, s] : found_) {
        index_vector shape;
        for (auto const& e : s.shape) {
            if (!e.known())
                throw error(errc::invalid_argument,
                            {.fqn = s.told_by,
                             .expected = "a known shape of the stored tensor " + name,
                             .found = to_string(s.shape),
                             .remedy = "Pass its shape to stored(), e.g. {.shape = {50257, -1}}."});
            shape.push_back(e.n);
        }
        if (!is_possible(shape))
            throw error(errc::shape_mismatch, {.fqn = s.told_by,
                                               .expected = "a shape that " + name + " can have",
                                               .found = to_string(shape)});
        all.add({name, s.type.value_or(s.state_type), std::move(shape)});
    }
    return all;
}

}  // namespace cairn::map::detail

#endif
