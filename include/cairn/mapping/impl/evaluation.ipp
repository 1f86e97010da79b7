// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_EVALUATION_IPP
#define CAIRN_MAPPING_IMPL_EVALUATION_IPP

#include <cairn/mapping/detail/evaluation.hpp>

#include <cairn/mapping/expressions.hpp>
#include <cairn/metadata/detail/nearest_name.hpp>
#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL const name_list& sources::names() const {
    if (!names_) {
        std::vector<std::string_view> sorted;
        sorted.reserve(all_.size());
        for (auto const& one : all_) sorted.push_back(one.first);
        names_.emplace(std::move(sorted));
    }
    return *names_;
}

CAIRN_DECL std::int64_t stacked_count(const name_list& names, const name_pattern& pattern,
                                      const std::string& capture, const captures& bound,
                                      const std::string& fqn) {
    std::set<std::string> found;
    names.for_each_match(pattern, bound, [&](const captures& c) {
        auto const& text = *c.find(capture);
        bool const canonical = text.find_first_not_of("0123456789") == text.npos &&
                               (text.size() == 1 || text.front() != '0') && text.size() < 10;
        if (canonical) found.insert(text);
    });
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(found.size()); ++n)
        if (!found.contains(std::to_string(n)))
            throw error(
                errc::missing_key,
                {.fqn = fqn,
                 .expected = "numbers from 0 on as {" + capture + "} of \"" + pattern.text() + "\"",
                 .found = std::to_string(found.size()) + " of them, without " + std::to_string(n)});
    return static_cast<std::int64_t>(found.size());
}

CAIRN_DECL expression in_groups(const node& n) {
    std::vector<expression> split;
    for (auto const& part : n.parts) split.push_back(split_dim(part, n.dim, {n.groups, -1}));
    // Counted from the last, the new dimension has the place of the old one.
    auto const outer = n.dim < 0 ? n.dim - 1 : n.dim;
    return merge_dims(concat(outer + 1, std::move(split), n.numbers), outer, {n.groups, -1});
}

CAIRN_DECL std::int64_t index_of(const node& unstack, const captures& bound,
                                 const std::string& fqn) {
    auto const text = unstack.name.fill(bound);
    std::int64_t n = 0;
    auto const bad = std::from_chars(text.data(), text.data() + text.size(), n).ec;
    if (bad != std::errc() || text != std::to_string(n) || n < 0 || n >= most_elements)
        throw error(errc::invalid_argument,
                    {.fqn = fqn, .expected = "a number as an index", .found = text});
    return n;
}

CAIRN_DECL const name_pattern& counted_pattern(const node& stack) {
    const name_pattern* first = nullptr;
    for_each_node(stack.of(), [&](const node& n) {
        if (first == nullptr && n.is_a(operation::stored) && n.name.has(stack.capture))
            first = &n.name;
    });
    return *first;
}

CAIRN_DECL pieced_tensor evaluation::operator()(const expression& e, captures& bound) {
    auto const& n = e.node();
    switch (n.is) {
        case operation::stored: return leaf(e, bound);
        case operation::concat: return concatenated(e, bound);
        case operation::interleave: return (*this)(in_groups(n), bound);
        case operation::stack: return stacked(e, bound);
        case operation::constant: {
            auto t =
                pieced_tensor::equal_elements(*n.value, n.numbers, n.type.value_or(dtype::float32));
            t.has_any_type = !n.type;
            return t;
        }
        default: return changed(e, bound);
    }
}

CAIRN_DECL std::string evaluation::suggested(const std::string& name) const {
    return "none" + (suggests ? cairn::detail::nearest_name(name, stored_) : std::string());
}

CAIRN_DECL pieced_tensor evaluation::leaf(const expression& e, const captures& bound) {
    auto const& n = e.node();
    std::string memory;
    auto const& name = n.name.fill(bound, memory);
    auto const found = stored_.find(name);
    if (found == stored_.end())
        about_.fail(errc::missing_key, e, "a stored tensor " + name, suggested(name));
    auto const& shape = found->second->shape;
    bool fits = n.numbers.empty() || n.numbers.size() == shape.size();
    for (std::size_t d = 0; fits && d < n.numbers.size(); ++d)
        fits = n.numbers[d] == -1 || n.numbers[d] == shape[d];
    if (!fits)
        about_.fail(errc::shape_mismatch, e, to_string(n.numbers),
                    to_string(shape) + " of " + name);
    used_.push_back(found->second.get());
    return pieced_tensor::whole(found->second);
}

CAIRN_DECL pieced_tensor evaluation::concatenated(const expression& e, captures& bound) {
    auto const& n = e.node();
    auto all = (*this)(n.of(), bound);
    auto const d = about_.dim(e, n.dim, all.shape.size());
    index_vector lengths{all.shape[d]};
    all.pieces.reserve(n.parts.size());
    for (std::size_t i = 1; i < n.parts.size(); ++i) {
        auto next = (*this)(n.parts[i], bound);
        auto like = all.shape;
        if (next.shape.size() == like.size()) like[d] = next.shape[d];
        if (next.shape != like)
            about_.fail(errc::shape_mismatch, e,
                        to_string(like) + " of part " + std::to_string(i) + ", up to dimension " +
                            std::to_string(d),
                        to_string(next.shape));
        if (!all.join_type(next))
            about_.fail(errc::dtype_mismatch, e,
                        std::string(name_of(all.type)) + " of part " + std::to_string(i),
                        std::string(name_of(next.type)));
        lengths.push_back(next.shape[d]);
        check_longer(e, all.shape, d, next.shape[d]);
        all.append(std::move(next), d);
    }
    // The lengths are multiples of the smallest numbers in the same proportion.
    std::int64_t divisor = 0, sum = 0;
    for (auto const number : n.numbers) divisor = std::gcd(divisor, number), sum += number;
    auto const unit = n.numbers.empty() ? 0 : all.shape[d] / (sum / divisor);
    for (std::size_t i = 0; i < n.numbers.size(); ++i)
        if (lengths[i] != n.numbers[i] / divisor * unit)
            about_.fail(errc::shape_mismatch, e, "lengths in proportion to " + to_string(n.numbers),
                        to_string(lengths));
    return all;
}

CAIRN_DECL pieced_tensor evaluation::stacked(const expression& e, captures& bound) {
    auto const& n = e.node();
    auto const& pattern = counted_pattern(n);
    auto const count = stacked_count(stored_.names(), pattern, n.capture, bound, about_.fqn);
    if (count == 0) {
        auto const names = pattern.with({}, {}, bound).text();
        about_.fail(errc::missing_key, e, "stored tensors " + names, suggested(names));
    }
    pieced_tensor all;
    std::size_t d = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        auto const before = bound.size();
        bound.bind(n.capture, std::to_string(i));
        auto next = (*this)(n.of(), bound);
        bound.shrink(before);
        d = about_.dim(e, n.dim, next.shape.size() + 1);
        next.insert_dim(d);
        auto like = all.shape;
        if (i > 0) like[d] = 1;
        if (i == 0) {
            all = std::move(next);
            all.pieces.reserve(all.pieces.size() * static_cast<std::size_t>(count));
        } else if (next.shape != like)
            about_.fail(errc::shape_mismatch, e, to_string(like) + " of each",
                        to_string(next.shape));
        else if (!all.join_type(next))
            about_.fail(errc::dtype_mismatch, e, std::string(name_of(all.type)) + " of each",
                        std::string(name_of(next.type)));
        else {
            check_longer(e, all.shape, d, 1);
            all.append(std::move(next), d);
        }
    }
    return all;
}

CAIRN_DECL void evaluation::check_longer(const expression& e, index_vector shape, std::size_t d,
                                         std::int64_t more) const {
    shape[d] += more;
    if (!is_possible(shape))
        about_.fail(errc::shape_mismatch, e, "a shape that a tensor can have", to_string(shape));
}

/// What has one operand.
CAIRN_DECL pieced_tensor evaluation::changed(const expression& e, captures& bound) {
    auto const& n = e.node();
    if (n.is_a(operation::leave_out)) about_.fail(errc::invalid_argument, e, "a tensor", "nothing");
    auto const used = used_.size();
    auto t = (*this)(n.of(), bound);
    switch (n.is) {
        case operation::unstack:
        case operation::slice:
        case operation::part: take_slice(e, bound, t); break;
        case operation::transpose:
        case operation::permute: reorder(e, t); break;
        case operation::split_dim: split(e, t); break;
        case operation::merge_dims: merge(e, t); break;
        case operation::pad:
        case operation::clip: resize(e, t); break;
        case operation::cast:
            if (!can_convert(t.type, *n.type))
                about_.fail(errc::dtype_mismatch, e, "a dtype that converts",
                            std::string(name_of(t.type)));
            t.type = *n.type;
            break;
        case operation::constant_like:
            check_value(e, t.type);
            t.pieces = pieced_tensor::equal_elements(*n.value, t.shape, t.type).pieces;
            used_.resize(used);
            break;
        case operation::dequantise: check_dequantised(e, t.type); break;
        default: break;  // the elements as they are
    }
    return t;
}

CAIRN_DECL void evaluation::check_dequantised(const expression& e, dtype type) const {
    if (size_of(type) > 1 || type == dtype::boolean) return;
    about_.fail(errc::dtype_mismatch, e, "a tensor that the reader has dequantised",
                std::string(name_of(type)),
                "Load with a dequantising_reader, and leave dequantise out for what is not "
                "quantised.");
}

CAIRN_DECL void evaluation::take_slice(const expression& e, const captures& bound,
                                       pieced_tensor& t) const {
    auto const& n = e.node();
    auto const d = about_.dim(e, n.dim, t.shape.size());
    auto const length = t.shape[d];
    std::int64_t begin = 0, end = 0;
    if (n.is_a(operation::part)) {
        auto const count = n.numbers[1];
        if (length % count != 0)
            about_.fail(errc::shape_mismatch, e, "a multiple of " + std::to_string(count),
                        to_string(t.shape));
        begin = length / count * n.numbers[0];
        end = begin + length / count;
    } else if (n.is_a(operation::unstack)) {
        begin = index_of(n, bound, about_.fqn);
        end = begin + 1;
    } else {
        begin = n.numbers[0];
        end = n.numbers[1];
    }
    if (end > length)
        about_.fail(errc::shape_mismatch, e,
                    "at least " + std::to_string(end) + " in dimension " + std::to_string(d),
                    to_string(t.shape));
    auto kept = box::whole(t.shape);
    kept.offsets[d] = begin;
    kept.shape[d] = end - begin;
    t.crop(kept);
    if (n.is_a(operation::unstack)) t.remove_dim(d);
}

CAIRN_DECL void evaluation::reorder(const expression& e, pieced_tensor& t) const {
    auto const& n = e.node();
    auto order = n.numbers;
    if (n.is_a(operation::transpose)) {
        order.resize(t.shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::swap(order[about_.dim(e, n.dim, order.size())],
                  order[about_.dim(e, n.other_dim, order.size())]);
    }
    if (order.size() != t.shape.size())
        about_.fail(errc::shape_mismatch, e,
                    "a tensor of " + std::to_string(order.size()) + " dimensions",
                    to_string(t.shape));
    t.permute(order);
}

CAIRN_DECL void evaluation::split(const expression& e, pieced_tensor& t) const {
    auto const& n = e.node();
    auto const d = about_.dim(e, n.dim, t.shape.size());
    auto sizes = n.numbers;
    std::int64_t known = 1;
    for (auto const size : sizes) known *= size == -1 ? 1 : size;
    for (auto& size : sizes)
        if (size == -1) size = t.shape[d] / known;
    if (!is_possible(sizes) || sizes.product() != t.shape[d])
        about_.fail(errc::shape_mismatch, e, "a product of " + to_string(n.numbers),
                    to_string(t.shape));
    if (!t.split_dim(d, sizes))
        about_.fail(errc::unsupported, e, "dimensions that can be divided into few pieces",
                    "more than " + std::to_string(most_pieces_of_split));
}

CAIRN_DECL void evaluation::merge(const expression& e, pieced_tensor& t) const {
    auto const& n = e.node();
    auto const d = about_.dim(e, n.dim, t.shape.size());
    bool fits = d + n.numbers.size() <= t.shape.size();
    for (std::size_t i = 0; fits && i < n.numbers.size(); ++i)
        fits = n.numbers[i] == -1 || n.numbers[i] == t.shape[d + i];
    if (!fits)
        about_.fail(errc::shape_mismatch, e,
                    to_string(n.numbers) + " from dimension " + std::to_string(d) + " on",
                    to_string(t.shape));
    t.merge_dims(d, n.numbers.size());
}

CAIRN_DECL void evaluation::check_value(const expression& e, dtype type) const {
    if (!has_number(type, *e.node().value))
        about_.fail(errc::invalid_argument, e,
                    "a number that " + std::string(name_of(type)) + " has",
                    number_text(*e.node().value));
}

CAIRN_DECL void evaluation::resize(const expression& e, pieced_tensor& t) const {
    auto const& n = e.node();
    auto to = n.numbers;
    bool const longer = n.is_a(operation::pad);
    bool fits = to.size() == t.shape.size();
    for (std::size_t d = 0; fits && d < to.size(); ++d) {
        if (to[d] == -1) to[d] = t.shape[d];
        fits = longer ? to[d] >= t.shape[d] : to[d] <= t.shape[d];
    }
    if (!fits)
        about_.fail(errc::shape_mismatch, e,
                    (longer ? "no more than " : "no less than ") + to_string(n.numbers),
                    to_string(t.shape));
    check_longer(e, to, 0, 0);
    if (longer) {
        check_value(e, t.type);
        return t.grow(to, *n.value);
    }
    if (dropped && n.value) {
        std::vector<piece> around;
        for (auto const& b : boxes_around(to, t.shape))
            for (auto const& p : t.pieces) cut(p, side::target, b, around);
        dropped(std::move(around), *n.value);
    }
    t.crop(box::whole(to));
}

}  // namespace cairn::map::detail

#endif
