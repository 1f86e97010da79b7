// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_NODE_HPP
#define CAIRN_MAPPING_DETAIL_NODE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::map::detail {

enum class operation : std::uint8_t {
    stored,
    concat,
    interleave,
    stack,
    unstack,
    slice,
    part,
    transpose,
    permute,
    split_dim,
    merge_dims,
    pad,
    clip,
    cast,
    dequantise,
    tie,
    leave_out,
    constant,
    constant_like,
};

/// By the number of the operation: the function that makes it.
inline constexpr std::string_view operation_names[] = {
    "stored",     "concat",  "interleave", "stack",      "unstack",      "slice", "part",
    "transpose",  "permute", "split_dim",  "merge_dims", "pad",          "clip",  "cast",
    "dequantise", "tie",     "leave_out",  "constant",   "constant_like"};

/// An operation with its arguments, those that it has.
struct node {
    operation is = operation::stored;
    name_pattern name{};  ///< Of what is stored; the index of unstack.
    std::string capture{};
    /// Dimensions as given: negative ones count from the last.
    int dim = 0, other_dim = 0;
    /// A shape, sizes, proportions or an order; begin and end; index and count.
    index_vector numbers{};
    std::int64_t groups = 1;
    std::optional<double> value{};
    std::optional<dtype> type{};
    std::vector<expression> parts{};
    /// Counted when it is made: how deep it is nested, and of how many operations it is.
    std::uint32_t depth = 1, operations = 1;

    const expression& of() const noexcept { return parts.front(); }
    bool is_a(operation o) const noexcept { return is == o; }
    friend bool operator==(const node&, const node&) = default;
};

/// Of an expression: what goes through one may call itself so often.
inline constexpr std::uint32_t most_nested = 64;
inline constexpr std::uint32_t most_operations = 1 << 20;

/// Whether a dtype has a number, if a rounded one.
CAIRN_DECL bool has_number(dtype type, double value);
/// Whether a dtype has every number of another one: a conversion back and forth loses nothing.
CAIRN_DECL bool holds(dtype wide, dtype narrow) noexcept;

/// Calls `f(expression)` with an expression and all that it is made of, outer ones first.
template <class F>
void for_each_expression(const expression& e, F&& f) {
    f(e);
    for (auto const& part : e.node().parts) for_each_expression(part, f);
}
/// Calls `f(node)` with their nodes.
template <class F>
void for_each_node(const expression& e, F&& f) {
    f(e.node());
    for (auto const& part : e.node().parts) for_each_node(part, f);
}

inline bool has(const expression& e, operation o) {
    bool found = false;
    for_each_node(e, [&](const node& n) { found = found || n.is_a(o); });
    return found;
}

/// The shortest text that is read as the same number.
CAIRN_DECL std::string number_text(double v);

/// Returns text as it stands in the text form.
CAIRN_DECL std::string in_quotes(std::string_view text);

/// Returns the text of an expression for messages: not all of a long one.
CAIRN_DECL std::string shown(const expression& e);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/node.ipp>
#endif

#endif
