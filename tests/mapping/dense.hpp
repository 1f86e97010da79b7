// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_MAPPING_DENSE_HPP
#define CAIRN_TESTS_MAPPING_DENSE_HPP

#include "../tensor/oracle.hpp"

#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Expressions computed on whole arrays, element by element.
namespace cairn::oracle {

struct dense {
    index_vector shape{};
    std::vector<double> elements{};

    explicit dense(index_vector s, double each = 0)
        : shape(std::move(s)), elements(static_cast<std::size_t>(shape.product()), each) {}
    double& at(const index_vector& index) {
        return elements.at(static_cast<std::size_t>(dot(index, row_major_strides(shape))));
    }
    double at(const index_vector& index) const { return const_cast<dense*>(this)->at(index); }
    friend bool operator==(const dense&, const dense&) = default;
};
using arrays = std::map<std::string, dense, std::less<>>;

inline dense made_of(index_vector shape, const std::function<double(const index_vector&)>& f) {
    dense a(std::move(shape));
    for_each_index(a.shape, [&](const index_vector& i) { a.at(i) = f(i); });
    return a;
}

inline std::size_t dimension(int given, std::size_t rank) {
    return static_cast<std::size_t>(given < 0 ? given + static_cast<int>(rank) : given);
}

inline dense reshaped(dense a, index_vector shape) {
    if (shape.product() != a.shape.product()) throw std::logic_error("the oracle's reshape");
    a.shape = std::move(shape);
    return a;
}

inline dense joined(const std::vector<dense>& all, std::size_t dim) {
    auto shape = all.front().shape;
    shape[dim] = 0;
    for (auto const& a : all) shape[dim] += a.shape[dim];
    return made_of(shape, [&](index_vector i) {
        std::size_t which = 0;
        while (i[dim] >= all[which].shape[dim]) i[dim] -= all[which++].shape[dim];
        return all[which].at(i);
    });
}

/// With -1 replaced, as in PyTorch.
inline index_vector with_rest(index_vector sizes, std::int64_t product) {
    for (auto& n : sizes)
        if (n == -1) n = product / -sizes.product();
    return sizes;
}

inline index_vector replaced(const index_vector& shape, std::size_t dim, std::size_t count,
                             const index_vector& by) {
    index_vector s(shape.begin(), shape.begin() + dim);
    for (auto const n : by) s.push_back(n);
    for (auto d = dim + count; d < shape.size(); ++d) s.push_back(shape[d]);
    return s;
}

inline dense window(const dense& a, std::size_t dim, std::int64_t begin, std::int64_t end) {
    auto shape = a.shape;
    shape[dim] = end - begin;
    return made_of(shape, [&](index_vector i) {
        i[dim] += begin;
        return a.at(i);
    });
}

inline dense permuted(const dense& a, const index_vector& order) {
    index_vector shape;
    for (auto const d : order) shape.push_back(a.shape[static_cast<std::size_t>(d)]);
    return made_of(shape, [&](const index_vector& i) {
        index_vector from(i.size(), 0);
        for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(order[d])] = i[d];
        return a.at(from);
    });
}

/// Of another shape, with `value` where `a` has no elements.
inline dense resized(const dense& a, const index_vector& shape, double value) {
    auto to = shape;
    for (std::size_t d = 0; d < to.size(); ++d) to[d] = to[d] == -1 ? a.shape[d] : to[d];
    return made_of(to, [&](const index_vector& i) {
        for (std::size_t d = 0; d < i.size(); ++d)
            if (i[d] >= a.shape[d]) return value;
        return a.at(i);
    });
}

inline dense evaluate(const map::expression& e, const map::detail::captures& bound,
                      const arrays& known) {
    using op = map::detail::operation;
    auto const& n = e.node();
    if (n.is == op::stored) return known.at(n.name.fill(bound));
    if (n.is == op::constant) return dense(n.numbers, *n.value);
    if (n.is == op::stack) {
        std::vector<dense> all;
        for (int i = 0;; ++i) {
            auto more = bound;
            more.bind(n.capture, std::to_string(i));
            bool there = false;
            map::detail::for_each_node(n.of(), [&](const map::detail::node& leaf) {
                there = there || (leaf.is == op::stored && leaf.name.has(n.capture) &&
                                  known.lower_bound(leaf.name.prefix(more)) != known.end() &&
                                  known.lower_bound(leaf.name.prefix(more))
                                      ->first.starts_with(leaf.name.prefix(more)));
            });
            if (!there) break;
            auto one = evaluate(n.of(), more, known);
            auto const d = dimension(n.dim, one.shape.size() + 1);
            auto const shape = replaced(one.shape, d, 0, {1});
            all.push_back(reshaped(std::move(one), shape));
        }
        return joined(all, dimension(n.dim, all.front().shape.size()));
    }
    std::vector<dense> parts;
    for (auto const& p : n.parts) parts.push_back(evaluate(p, bound, known));
    auto const& a = parts.front();
    auto const d = dimension(n.dim, a.shape.size());
    auto const length =
        n.dim < static_cast<int>(a.shape.size()) && !a.shape.empty() ? a.shape[d] : 1;
    switch (n.is) {
        case op::concat: return joined(parts, d);
        case op::interleave: {
            std::vector<dense> all;
            for (std::int64_t g = 0; g < n.groups; ++g)
                for (auto const& p : parts) {
                    auto const each = p.shape[d] / n.groups;
                    all.push_back(window(p, d, g * each, (g + 1) * each));
                }
            return joined(all, d);
        }
        case op::unstack: {
            auto const i = std::stoll(n.name.fill(bound));
            return reshaped(window(a, d, i, i + 1), replaced(a.shape, d, 1, {}));
        }
        case op::slice: return window(a, d, n.numbers[0], n.numbers[1]);
        case op::part: {
            auto const each = length / n.numbers[1];
            return window(a, d, n.numbers[0] * each, (n.numbers[0] + 1) * each);
        }
        case op::transpose: {
            index_vector order;
            for (std::size_t i = 0; i < a.shape.size(); ++i)
                order.push_back(static_cast<std::int64_t>(i));
            std::swap(order[d], order[dimension(n.other_dim, a.shape.size())]);
            return permuted(a, order);
        }
        case op::permute: return permuted(a, n.numbers);
        case op::split_dim:
            return reshaped(a, replaced(a.shape, d, 1, with_rest(n.numbers, length)));
        case op::merge_dims: {
            std::int64_t product = 1;
            for (std::size_t i = 0; i < n.numbers.size(); ++i) product *= a.shape[d + i];
            return reshaped(a, replaced(a.shape, d, n.numbers.size(), {product}));
        }
        case op::pad:
        case op::clip: return resized(a, n.numbers, n.value.value_or(0));
        case op::constant_like: return dense(a.shape, *n.value);
        case op::cast:
        case op::dequantise:
        case op::tie: return a;
        default: throw std::logic_error("an operation that the oracle lacks");
    }
}

/// The shape of a piece as an array of its own.
inline index_vector extents_of(const map::detail::piece& p) {
    index_vector all;
    for (auto const& a : p.axes) all.push_back(a.extent);
    return all;
}

/// Puts pieces together. @throws std::logic_error if two have the same element of the target
inline dense assembled(const index_vector& shape, const std::vector<map::detail::piece>& pieces,
                       const arrays& sources, double missing) {
    using map::detail::side;
    dense all(shape, missing);
    std::vector<bool> there(all.elements.size(), false);
    for (auto const& p : pieces) {
        auto const place = [&](side s, const index_vector& whole, const index_vector& i) {
            auto const strides = row_major_strides(whole);
            return static_cast<std::size_t>(dot(p.offsets(s), strides) +
                                            dot(i, p.strides(s, strides)));
        };
        for_each_index(extents_of(p), [&](const index_vector& i) {
            auto const to = place(side::target, shape, i);
            if (there.at(to)) throw std::logic_error("two pieces have one element");
            there.at(to) = true;
            all.elements.at(to) =
                p.is_constant()
                    ? p.value
                    : sources.at(p.from->name).elements.at(place(side::source, p.from->shape, i));
        });
    }
    return all;
}

}  // namespace cairn::oracle

#endif
