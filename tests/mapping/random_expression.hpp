// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_MAPPING_RANDOM_EXPRESSION_HPP
#define CAIRN_TESTS_MAPPING_RANDOM_EXPRESSION_HPP

#include "dense.hpp"

#include <cairn/mapping/expressions.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn::oracle {

/// Makes expressions of a given shape, and the arrays that they are made of, whose elements all
/// differ.
class random_expressions {
public:
    explicit random_expressions(unsigned seed) : random_(seed) {}

    /// Without what a save cannot invert: constants, parts of a stored tensor.
    bool only_lossless = false;

    arrays stored{};

    index_vector shape() {
        index_vector s(static_cast<std::size_t>(number(0, 15) == 0 ? 0 : number(1, 3)), 0);
        for (auto& n : s) n = lengths_[static_cast<std::size_t>(number(0, 7))];
        return s;
    }
    std::int64_t number(std::int64_t least, std::int64_t most) {
        return pick(random_, least, most);
    }

    map::expression make(const index_vector& shape, int depth) {
        bool const nothing_fits = only_lossless && shape.empty();
        if (depth == 0 || nothing_fits || number(0, 23) == 0) return leaf(shape);
        // Not every operation has a result of this shape: another one is tried then.
        for (;;) {
            auto const dim = shape.empty() ? 0 : number(0, static_cast<int>(shape.size()) - 1);
            auto const d = static_cast<std::size_t>(dim);
            switch (number(0, 15)) {
                case 0:
                    if (!shape.empty()) return concat(shape, d, depth);
                    break;
                case 1:
                    if (!shape.empty() && shape[d] % 2 == 0) return interleave(shape, d, depth);
                    break;
                case 2:
                    if (!shape.empty() && captures_.size() < 2 && !no_stack_)
                        return stack(shape, d, depth);
                    break;
                case 3:
                    if (!only_lossless && shape.size() < 4 && number(0, 1) == 0)
                        return unstack(shape, depth);
                    break;
                case 4:
                    if (!only_lossless && !shape.empty()) return slice(shape, d, depth);
                    break;
                case 5:
                    if (!only_lossless && !shape.empty()) return part(shape, d, depth);
                    break;
                case 6:
                case 7:
                    if (shape.size() > 1) return permute(shape, depth);
                    break;
                case 8:
                case 9:
                    if (shape.size() > 1) return split(shape, depth);
                    break;
                case 10:
                case 11:
                    if (!shape.empty() && shape.size() < 4) return merge(shape, d, depth);
                    break;
                case 12:
                    if (!shape.empty()) return pad(shape, depth);
                    break;
                case 13:
                    if (!shape.empty()) return clip(shape, depth);
                    break;
                case 14:
                    if (!only_lossless && number(0, 3) == 0)
                        return map::constant(0.5, shape, dtype::float32);
                    break;
                default:
                    if (!only_lossless && number(0, 3) == 0)
                        return map::dequantise(make(shape, depth - 1));
                    break;
            }
        }
    }

private:
    map::expression leaf(const index_vector& shape) {
        auto const base = "t" + std::to_string(names_++);
        // One array for each combination of the open captures.
        std::vector<std::string> all{base};
        auto pattern = base;
        for (auto const& [capture, count] : captures_) {
            pattern += ".{" + capture + "}";
            std::vector<std::string> more;
            for (auto const& name : all)
                for (std::int64_t i = 0; i < count; ++i)
                    more.push_back(name + "." + std::to_string(i));
            all = std::move(more);
        }
        for (auto const& name : all) {
            dense a(shape);
            for (auto& v : a.elements) v = next_++;
            stored.emplace(name, std::move(a));
        }
        bool const known = only_lossless || number(0, 3) == 0;
        return map::stored(pattern, {known ? shape : index_vector(), {}});
    }

    int maybe_negative(std::size_t d, std::size_t rank) {
        return static_cast<int>(d) - (number(0, 1) == 0 ? 0 : static_cast<int>(rank));
    }

    /// A save does not know how many are stacked unless the whole tells.
    map::expression make_of_known_length(const index_vector& shape, int depth) {
        bool const before = std::exchange(no_stack_, no_stack_ || only_lossless);
        auto e = make(shape, depth);
        no_stack_ = before;
        return e;
    }
    map::expression concat(const index_vector& shape, std::size_t d, int depth) {
        std::vector<map::expression> parts;
        auto left = shape[d];
        for (auto n = number(1, 3); n > 0; --n) {
            auto s = shape;
            s[d] = n == 1 ? left : number(0, left);
            left -= s[d];
            parts.push_back(make_of_known_length(s, depth - 1));
        }
        return map::concat(maybe_negative(d, shape.size()), std::move(parts));
    }
    map::expression interleave(const index_vector& shape, std::size_t d, int depth) {
        auto s = shape;
        s[d] /= 2;
        std::vector<map::expression> parts{make_of_known_length(s, depth - 1),
                                           make_of_known_length(s, depth - 1)};
        std::int64_t const groups = s[d] > 1 && s[d] % 2 == 0 ? 2 : std::max<std::int64_t>(s[d], 1);
        return map::interleave(maybe_negative(d, shape.size()), groups, std::move(parts), {1, 1});
    }
    map::expression stack(const index_vector& shape, std::size_t d, int depth) {
        if (shape[d] == 0) return leaf(shape);
        auto const capture = "c" + std::to_string(captures_.size());
        captures_.emplace_back(capture, shape[d]);
        auto each = make_counted(replaced(shape, d, 1, {}), depth - 1);
        captures_.pop_back();
        return map::stack(capture, std::move(each), maybe_negative(d, shape.size()));
    }
    /// With at least one stored tensor.
    map::expression make_counted(const index_vector& shape, int depth) {
        auto const before = names_;
        auto e = make(shape, depth);
        return names_ != before ? e : leaf(shape);
    }
    map::expression unstack(const index_vector& shape, int depth) {
        auto const d = static_cast<std::size_t>(number(0, static_cast<int>(shape.size())));
        auto const n = number(1, 3);
        auto of = make(replaced(shape, d, 0, {n}), depth - 1);
        return map::unstack(std::move(of), number(0, n - 1), maybe_negative(d, shape.size() + 1));
    }
    map::expression slice(index_vector shape, std::size_t d, int depth) {
        auto const begin = number(0, 3), end = begin + shape[d];
        shape[d] = end + number(0, 3);
        return map::slice(make(shape, depth - 1), maybe_negative(d, shape.size()), begin, end);
    }
    map::expression part(index_vector shape, std::size_t d, int depth) {
        auto const count = number(1, 3);
        shape[d] *= count;
        return map::part(make(shape, depth - 1), maybe_negative(d, shape.size()),
                         number(0, count - 1), count);
    }
    map::expression permute(const index_vector& shape, int depth) {
        index_vector order;
        for (std::size_t d = 0; d < shape.size(); ++d)
            order.push_back(static_cast<std::int64_t>(d));
        auto s = shape;
        if (number(0, 1) == 0) {
            auto const a = static_cast<std::size_t>(number(0, static_cast<int>(shape.size()) - 1));
            auto const b = static_cast<std::size_t>(number(0, static_cast<int>(shape.size()) - 1));
            std::swap(s[a], s[b]);
            return map::transpose(make(s, depth - 1), maybe_negative(a, s.size()),
                                  maybe_negative(b, s.size()));
        }
        std::shuffle(order.begin(), order.end(), random_);
        for (std::size_t d = 0; d < shape.size(); ++d)
            s[static_cast<std::size_t>(order[d])] = shape[d];
        return map::permute(make(s, depth - 1), order);
    }
    map::expression split(const index_vector& shape, int depth) {
        auto const rank = static_cast<std::int64_t>(shape.size());
        auto const first = number(0, rank - 2), count = number(2, rank - first);
        index_vector sizes(shape.begin() + first, shape.begin() + first + count);
        auto const d = static_cast<std::size_t>(first);
        auto of = make(replaced(shape, d, sizes.size(), {sizes.product()}), depth - 1);
        for (auto& n : sizes)
            if (n == 0) return make(shape, depth - 1);
        if (number(0, 1) == 0) sizes[static_cast<std::size_t>(number(0, count - 1))] = -1;
        return map::split_dim(std::move(of), static_cast<int>(d), sizes);
    }
    map::expression merge(const index_vector& shape, std::size_t d, int depth) {
        auto n = shape[d];
        index_vector sizes;
        for (std::int64_t f : {3, 2, 2})
            if (n > 0 && n % f == 0 && sizes.size() + shape.size() < 5 && number(0, 3) != 0) {
                sizes.push_back(f);
                n /= f;
            }
        if (sizes.empty()) return make(shape, depth);  // something else
        sizes.push_back(n);
        std::shuffle(sizes.begin(), sizes.end(), random_);
        auto of = make(replaced(shape, d, 1, sizes), depth - 1);
        bool one = false;  // -1
        for (auto& s : sizes) {
            bool const any = s == 0 || number(0, 3) == 0;
            if (any && !(only_lossless && one)) {
                s = -1;
                one = true;
            }
        }
        if (std::count(sizes.begin(), sizes.end(), 0) != 0) return make(shape, 0);
        return map::merge_dims(std::move(of), static_cast<int>(d), sizes);
    }
    map::expression pad(const index_vector& shape, int depth) {
        auto inner = shape, to = shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            if (number(0, 1) == 0 || shape[d] < 2)
                to[d] = -1;
            else
                inner[d] = number(1, shape[d]);
        }
        return map::pad(make_of_known_length(inner, depth - 1), to, 0.25);
    }
    map::expression clip(const index_vector& shape, int depth) {
        auto outer = shape, to = shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            if (number(0, 1) == 0 || shape[d] == 0)
                to[d] = -1;
            else
                outer[d] += number(0, 3);
        }
        return map::clip(make_of_known_length(outer, depth - 1), to, 0.75);
    }

    static constexpr std::int64_t lengths_[8] = {1, 2, 3, 4, 5, 6, 8, 12};
    std::mt19937 random_;
    std::vector<std::pair<std::string, std::int64_t>> captures_{};
    bool no_stack_ = false;
    int names_ = 0;
    double next_ = 1;
};

}  // namespace cairn::oracle

#endif
