// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_SUPPORT_MAPPED_TENSORS_HPP
#define CAIRN_TESTS_SUPPORT_MAPPED_TENSORS_HPP

#include "../tensor/oracle.hpp"

#include <cairn/mapping/expressions.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// Expressions by chance, and element by element what they make.
namespace cairn::oracle {

/// A whole tensor; each element of a stored one is another number.
struct dense {
    index_vector shape{};
    std::vector<double> values{};

    double& at(const index_vector& i) {
        auto const strides = row_major_strides(shape);
        std::int64_t place = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) place += i[d] * strides[d];
        return values[static_cast<std::size_t>(place)];
    }
    explicit dense(index_vector s, double each = 0)
        : shape(std::move(s)), values(static_cast<std::size_t>(shape.product()), each) {}
    dense() = default;
    /// A tensor of another shape, whose element i is that at `from(i)`.
    template <class From>
    dense made(const index_vector& other, From&& from) {
        dense d(other);
        for_each_index(other, [&](const index_vector& i) { d.at(i) = at(from(i)); });
        return d;
    }
};

/// An expression, and what it makes.
struct expected_tensor {
    map::expression how;
    dense what;
};

/// Makes expressions whose result has a given shape.
class random_expressions {
public:
    /// Of what `pad` adds, and of what a save stores for what `clip` drops.
    static constexpr double padding = -3, dropped = -5;

    /// @param inverts  Only what a save can invert.
    random_expressions(std::mt19937& random, bool inverts) : random_(random), inverts_(inverts) {}

    expected_tensor make(const index_vector& shape, int depth) {
        auto const rank = static_cast<std::int64_t>(shape.size());
        for (int tries = 0; depth > 0 && rank > 0 && tries < 8; ++tries) {
            auto const dim = static_cast<std::size_t>(pick(0, rank - 1));
            switch (pick(0, inverts_ ? 8 : 11)) {
                case 0: return transposed(shape, depth);
                case 1:
                    if (shape[dim] > 1) return concatenated(shape, dim, depth);
                    break;
                case 2:
                    if (auto const g = divisor(shape[dim]); shape[dim] / g > 1)
                        return interleaved(shape, dim, g, depth);
                    break;
                case 3:
                    if (shape[dim] < 5 && (!inverts_ || hidden_ == 0)) return stacked(shape, dim);
                    break;
                case 4:
                    if (rank > 1 && dim + 1 < shape.size()) return split(shape, dim, depth);
                    break;
                case 5: return merged(shape, dim, depth);
                case 6:
                    if (shape[dim] > 1) return padded(shape, dim, depth);
                    break;
                case 7: return clipped(shape, dim, depth);
                case 8:
                    if (!wide_) return converted(shape, depth);
                    break;
                case 9: return sliced(shape, dim, depth);
                case 10: return part_of(shape, dim, depth);
                default: return unstacked(shape, depth);
            }
        }
        auto const name = "s" + std::to_string(stored.size());
        return {map::stored(name, known(shape)), new_stored(name, shape)};
    }

    std::map<std::string, dense> stored{};
    std::map<std::string, dtype> types{};  ///< Of what is stored.

private:
    std::int64_t pick(std::int64_t low, std::int64_t high) {
        return oracle::pick(random_, low, high);
    }
    /// Of a number, by chance.
    std::int64_t divisor(std::int64_t n) {
        auto d = pick(1, std::max<std::int64_t>(1, n));
        while (d > 1 && n % d != 0) --d;
        return std::max<std::int64_t>(1, d);
    }
    /// Two or three positive lengths with this sum.
    index_vector lengths(std::int64_t sum) {
        index_vector l{pick(1, sum - 1)};
        auto const rest = sum - l[0];
        if (rest > 1 && pick(0, 1) == 1) {
            l.push_back(pick(1, rest - 1));
            l.push_back(rest - l[1]);
        } else {
            l.push_back(rest);
        }
        return l;
    }
    /// What a save has to be told, because padding and other tensors hide it.
    map::stored_type known(const index_vector& shape) const {
        return inverts_ ? map::stored_type{.shape = shape} : map::stored_type{};
    }
    const dense& new_stored(const std::string& name, const index_vector& shape) {
        dense d(shape);
        for (auto& v : d.values) v = ++last_;
        types[name] = wide_ ? dtype::float64 : dtype::float32;
        return stored.emplace(name, std::move(d)).first->second;
    }
    static index_vector with(index_vector shape, std::size_t dim, std::int64_t n) {
        shape[dim] = n;
        return shape;
    }
    static index_vector unknown(const index_vector& shape, std::size_t dim, std::int64_t n) {
        return with(index_vector(shape.size(), -1), dim, n);
    }

    expected_tensor transposed(const index_vector& shape, int depth) {
        std::vector<std::size_t> order(shape.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random_);
        index_vector from(shape.size(), 0), as;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            from[order[d]] = shape[d];
            as.push_back(static_cast<std::int64_t>(order[d]));
        }
        auto e = make(from, depth - 1);
        auto what = e.what.made(shape, [&](const index_vector& i) {
            index_vector j(i.size(), 0);
            for (std::size_t d = 0; d < i.size(); ++d) j[order[d]] = i[d];
            return j;
        });
        return {map::permute(std::move(e.how), as), std::move(what)};
    }
    expected_tensor concatenated(const index_vector& shape, std::size_t dim, int depth) {
        auto const l = lengths(shape[dim]);
        std::vector<map::expression> parts;
        dense what(shape);
        std::int64_t before = 0;
        for (auto const n : l) {
            auto e = make(with(shape, dim, n), depth - 1);
            for_each_index(e.what.shape, [&](const index_vector& i) {
                what.at(with(i, dim, i[dim] + before)) = e.what.at(i);
            });
            before += n;
            parts.push_back(std::move(e.how));
        }
        return {map::concat(static_cast<int>(dim), std::move(parts), l), std::move(what)};
    }
    expected_tensor interleaved(const index_vector& shape, std::size_t dim, std::int64_t groups,
                                int depth) {
        auto const stretch = shape[dim] / groups;
        auto const l = lengths(stretch);
        std::vector<map::expression> parts;
        dense what(shape);
        std::int64_t before = 0;
        for (auto const n : l) {
            auto e = make(with(shape, dim, n * groups), depth - 1);
            for_each_index(e.what.shape, [&](const index_vector& i) {
                what.at(with(i, dim, i[dim] / n * stretch + before + i[dim] % n)) = e.what.at(i);
            });
            before += n;
            parts.push_back(std::move(e.how));
        }
        return {map::interleave(static_cast<int>(dim), groups, std::move(parts), l),
                std::move(what)};
    }
    expected_tensor stacked(const index_vector& shape, std::size_t dim) {
        index_vector each;
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (d != dim) each.push_back(shape[d]);
        auto const capture = "e" + std::to_string(stored.size());
        auto const name = "s" + std::to_string(stored.size()) + "x.";
        dense what(shape);
        for (std::int64_t n = 0; n < shape[dim]; ++n) {
            auto one = new_stored(name + std::to_string(n), each);
            for_each_index(shape, [&](const index_vector& i) {
                if (i[dim] != n) return;
                index_vector j;
                for (std::size_t d = 0; d < i.size(); ++d)
                    if (d != dim) j.push_back(i[d]);
                what.at(i) = one.at(j);
            });
        }
        return {map::stack(capture, map::stored(name + "{" + capture + "}", known(each)),
                           static_cast<int>(dim)),
                std::move(what)};
    }
    expected_tensor split(const index_vector& shape, std::size_t dim, int depth) {
        index_vector from;
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (d == dim + 1)
                from[dim] *= shape[d];
            else
                from.push_back(shape[d]);
        auto e = make(from, depth - 1);
        auto what = e.what.made(shape, [&](const index_vector& i) {
            index_vector j;
            for (std::size_t d = 0; d < i.size(); ++d)
                if (d == dim + 1)
                    j[dim] = j[dim] * shape[d] + i[d];
                else
                    j.push_back(i[d]);
            return j;
        });
        return {
            map::split_dim(std::move(e.how), static_cast<int>(dim), {shape[dim], shape[dim + 1]}),
            std::move(what)};
    }
    expected_tensor merged(const index_vector& shape, std::size_t dim, int depth) {
        auto const a = divisor(shape[dim]), b = shape[dim] / a;
        index_vector from;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            from.push_back(d == dim ? a : shape[d]);
            if (d == dim) from.push_back(b);
        }
        auto e = make(from, depth - 1);
        auto what = e.what.made(shape, [&](const index_vector& i) {
            index_vector j;
            for (std::size_t d = 0; d < i.size(); ++d) {
                j.push_back(d == dim ? i[d] / b : i[d]);
                if (d == dim) j.push_back(i[d] % b);
            }
            return j;
        });
        return {map::merge_dims(std::move(e.how), static_cast<int>(dim), {a, b}), std::move(what)};
    }
    expected_tensor padded(const index_vector& shape, std::size_t dim, int depth) {
        auto const n = pick(1, shape[dim] - 1);
        ++hidden_;
        auto e = make(with(shape, dim, n), depth - 1);
        --hidden_;
        dense what(shape, padding);
        for_each_index(e.what.shape, [&](const index_vector& i) { what.at(i) = e.what.at(i); });
        return {map::pad(std::move(e.how), unknown(shape, dim, shape[dim]), padding),
                std::move(what)};
    }
    expected_tensor clipped(const index_vector& shape, std::size_t dim, int depth) {
        auto const more = shape[dim] + pick(1, 2);
        ++hidden_;
        auto e = make(with(shape, dim, more), depth - 1);
        --hidden_;
        auto what = e.what.made(shape, [](const index_vector& i) { return i; });
        return {map::clip(std::move(e.how), unknown(shape, dim, shape[dim]), dropped),
                std::move(what)};
    }
    expected_tensor converted(const index_vector& shape, int depth) {
        wide_ = true;
        auto e = make(shape, depth - 1);
        wide_ = false;
        return {map::cast(std::move(e.how), dtype::float32), std::move(e.what)};
    }
    expected_tensor sliced(const index_vector& shape, std::size_t dim, int depth) {
        auto const before = pick(0, 2);
        auto e = make(with(shape, dim, shape[dim] + before + pick(0, 2)), depth - 1);
        auto what = e.what.made(
            shape, [&](const index_vector& i) { return with(i, dim, i[dim] + before); });
        return {map::slice(std::move(e.how), static_cast<int>(dim), before, before + shape[dim]),
                std::move(what)};
    }
    expected_tensor part_of(const index_vector& shape, std::size_t dim, int depth) {
        auto const count = pick(1, 3), index = pick(0, count - 1);
        auto e = make(with(shape, dim, shape[dim] * count), depth - 1);
        auto what = e.what.made(shape, [&](const index_vector& i) {
            return with(i, dim, i[dim] + index * shape[dim]);
        });
        return {map::part(std::move(e.how), static_cast<int>(dim), index, count), std::move(what)};
    }
    expected_tensor unstacked(const index_vector& shape, int depth) {
        auto const dim = static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(shape.size())));
        auto const count = pick(1, 3), index = pick(0, count - 1);
        auto const wider = [&](const index_vector& of, std::int64_t n) {
            index_vector s;
            for (std::size_t d = 0; d <= of.size(); ++d) {
                if (d == dim) s.push_back(n);
                if (d < of.size()) s.push_back(of[d]);
            }
            return s;
        };
        auto e = make(wider(shape, count), depth - 1);
        auto what = e.what.made(shape, [&](const index_vector& i) { return wider(i, index); });
        return {map::unstack(std::move(e.how), index, static_cast<int>(dim)), std::move(what)};
    }

    std::mt19937& random_;
    bool inverts_;
    /// A state does not tell how many tensors are stacked there.
    int hidden_ = 0;
    bool wide_ = false;  ///< What is made now is converted.
    double last_ = 0;
};

}  // namespace cairn::oracle

#endif
