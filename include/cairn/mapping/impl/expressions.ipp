// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_EXPRESSIONS_IPP
#define CAIRN_MAPPING_IMPL_EXPRESSIONS_IPP

#include <cairn/mapping/expressions.hpp>

#include <cairn/mapping/detail/node.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::map {

namespace detail {

/// @throws error errc::invalid_argument if it is nested too deep
CAIRN_DECL expression made(node n) {
    // An interleaving is made of three others.
    std::uint32_t const levels = n.is_a(operation::interleave) ? 3 : 1;
    std::uint32_t deepest = 0;
    for (auto const& part : n.parts) {
        deepest = std::max(deepest, part.node().depth);
        n.operations = std::min(n.operations + part.node().operations, most_operations + 1);
    }
    n.depth = deepest + levels;
    if (n.depth > most_nested || n.operations > most_operations)
        throw error(
            errc::invalid_argument,
            {.expected = "expressions nested at most " + std::to_string(most_nested) +
                         " deep, of at most " + std::to_string(most_operations) + " operations",
             .found = "more, of " + std::string(operation_names[static_cast<std::size_t>(n.is)])});
    return expression(std::make_shared<const node>(std::move(n)));
}

/// @throws error errc::invalid_argument, naming the expression
CAIRN_DECL expression checked(node n, bool good, const char* expected) {
    auto e = made(std::move(n));
    if (!good) throw error(errc::invalid_argument, {.expected = expected, .found = shown(e)});
    return e;
}

/// Whether a tensor can have such a shape, with -1 for what is not known.
CAIRN_DECL bool is_possible_in_part(index_vector shape) {
    std::replace(shape.begin(), shape.end(), std::int64_t{-1}, std::int64_t{1});
    return is_possible(shape);
}

CAIRN_DECL bool are_sizes(const index_vector& sizes, std::ptrdiff_t unknown) {
    return !sizes.empty() && std::count(sizes.begin(), sizes.end(), -1) <= unknown &&
           std::find(sizes.begin(), sizes.end(), 0) == sizes.end() && is_possible_in_part(sizes);
}

CAIRN_DECL bool are_proportions(const index_vector& of, std::size_t parts) {
    std::int64_t left = most_elements;
    for (auto const n : of) {
        if (n <= 0 || n > left) return false;
        left -= n;
    }
    return of.empty() || of.size() == parts;
}

}  // namespace detail

using detail::operation;

CAIRN_DECL expression stored(std::string name, stored_type known) {
    bool const good = detail::is_possible_in_part(known.shape);
    return detail::checked({.is = operation::stored,
                            .name = detail::name_pattern(std::move(name)),
                            .numbers = std::move(known.shape),
                            .type = known.type},
                           good, "a shape, with -1 for what is not known");
}

CAIRN_DECL expression concat(int dim, std::vector<expression> parts, index_vector proportions) {
    bool const good = !parts.empty() && detail::are_proportions(proportions, parts.size());
    return detail::checked({.is = operation::concat,
                            .dim = dim,
                            .numbers = std::move(proportions),
                            .parts = std::move(parts)},
                           good, "tensors, and no or as many positive proportions");
}

CAIRN_DECL expression interleave(int dim, std::int64_t groups, std::vector<expression> parts,
                                 index_vector proportions) {
    bool const good = groups > 0 && groups <= most_elements && !parts.empty() &&
                      detail::are_proportions(proportions, parts.size());
    return detail::checked({.is = operation::interleave,
                            .dim = dim,
                            .numbers = std::move(proportions),
                            .groups = groups,
                            .parts = std::move(parts)},
                           good, "groups, tensors, and no or as many positive proportions");
}

CAIRN_DECL expression stack(std::string capture, expression each, int dim) {
    bool counts = false;
    detail::for_each_node(each, [&](const detail::node& n) {
        counts = counts || (n.is_a(operation::stored) && n.name.has(capture));
    });
    return detail::checked({.is = operation::stack,
                            .capture = std::move(capture),
                            .dim = dim,
                            .parts = {std::move(each)}},
                           counts, "a capture of what is stored");
}

CAIRN_DECL expression unstack(expression of, std::int64_t index, int dim) {
    return unstack(std::move(of), std::to_string(index), dim);
}

CAIRN_DECL expression unstack(expression of, std::string index, int dim) {
    detail::name_pattern pattern(std::move(index));
    auto const& text = pattern.text();
    bool const good = pattern.is_literal()
                          ? text.size() < 10 && text.find_first_not_of("0123456789") == text.npos
                          : "{" + pattern.names().front() + "}" == text;
    return detail::checked({.is = operation::unstack,
                            .name = std::move(pattern),
                            .dim = dim,
                            .parts = {std::move(of)}},
                           good, "a number, or a capture, as the index");
}

CAIRN_DECL expression slice(expression of, int dim, std::int64_t begin, std::int64_t end) {
    return detail::checked(
        {.is = operation::slice, .dim = dim, .numbers = {begin, end}, .parts = {std::move(of)}},
        begin >= 0 && end >= begin && end <= most_elements, "0 <= begin <= end");
}

CAIRN_DECL expression part(expression of, int dim, std::int64_t index, std::int64_t count) {
    return detail::checked(
        {.is = operation::part, .dim = dim, .numbers = {index, count}, .parts = {std::move(of)}},
        index >= 0 && index < count && count <= most_elements, "0 <= index < count");
}

CAIRN_DECL expression transpose(expression of, int a, int b) {
    return detail::made(
        {.is = operation::transpose, .dim = a, .other_dim = b, .parts = {std::move(of)}});
}

CAIRN_DECL expression permute(expression of, index_vector order) {
    std::vector<std::int64_t> sorted(order.begin(), order.end());
    std::sort(sorted.begin(), sorted.end());
    bool good = true;
    for (std::size_t d = 0; d < sorted.size(); ++d)
        good = good && sorted[d] == static_cast<std::int64_t>(d);
    return detail::checked(
        {.is = operation::permute, .numbers = std::move(order), .parts = {std::move(of)}}, good,
        "each dimension once, counted from 0");
}

CAIRN_DECL expression split_dim(expression of, int dim, index_vector sizes) {
    bool const good = detail::are_sizes(sizes, 1);
    return detail::checked({.is = operation::split_dim,
                            .dim = dim,
                            .numbers = std::move(sizes),
                            .parts = {std::move(of)}},
                           good, "positive sizes, one of which may be -1");
}

CAIRN_DECL expression merge_dims(expression of, int dim, index_vector sizes) {
    bool const good = detail::are_sizes(sizes, static_cast<std::ptrdiff_t>(sizes.size()));
    return detail::checked({.is = operation::merge_dims,
                            .dim = dim,
                            .numbers = std::move(sizes),
                            .parts = {std::move(of)}},
                           good, "positive sizes, or -1");
}

CAIRN_DECL expression pad(expression of, index_vector shape, double value) {
    bool const good = detail::are_sizes(shape, static_cast<std::ptrdiff_t>(shape.size()));
    return detail::checked({.is = operation::pad,
                            .numbers = std::move(shape),
                            .value = value,
                            .parts = {std::move(of)}},
                           good, "a shape of positive numbers, or -1");
}

CAIRN_DECL expression clip(expression of, index_vector shape, std::optional<double> value) {
    bool const good = detail::are_sizes(shape, static_cast<std::ptrdiff_t>(shape.size()));
    return detail::checked({.is = operation::clip,
                            .numbers = std::move(shape),
                            .value = value,
                            .parts = {std::move(of)}},
                           good, "a shape of positive numbers, or -1");
}

CAIRN_DECL expression cast(expression of, dtype type) {
    bool const once = !detail::has(of, operation::cast);
    return detail::checked({.is = operation::cast, .type = type, .parts = {std::move(of)}}, once,
                           "one cast of an element");
}

CAIRN_DECL expression dequantise(expression of) {
    return detail::made({.is = operation::dequantise, .parts = {std::move(of)}});
}

CAIRN_DECL expression tie(expression of) {
    return detail::made({.is = operation::tie, .parts = {std::move(of)}});
}

CAIRN_DECL expression leave_out() {
    return detail::made({.is = operation::leave_out});
}

CAIRN_DECL expression constant(double value, index_vector shape, dtype type) {
    bool const good = is_possible(shape) && detail::has_number(type, value);
    return detail::checked(
        {.is = operation::constant, .numbers = std::move(shape), .value = value, .type = type},
        good, "a shape, and a number that the dtype has");
}

CAIRN_DECL expression constant_like(expression of, double value) {
    return detail::made({.is = operation::constant_like, .value = value, .parts = {std::move(of)}});
}

}  // namespace cairn::map

#endif
