// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_CHANGE_HPP
#define CAIRN_TOOLS_CHANGE_HPP

#include "checkpoint.hpp"

#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace tool {

/// How two tensors of the same shape differ. Of complex elements the real and imaginary parts are
/// compared, of packed ones the bytes.
struct tensor_change {
    std::uint64_t elements = 0;
    /// Elements with other bytes or, of two dtypes, another value.
    std::uint64_t changed = 0;
    std::uint64_t bytes = 0;  ///< Bytes that differ, if the dtype is the same.
    // A double does not hold all integers of 64 bits, nor the squares of all doubles.
    long double largest = 0;  ///< Absolute difference; infinite for NaN against a number.
    // Sums of squares, where both elements are finite.
    long double difference = 0;
    long double first = 0;  ///< Of the first tensor.

    double largest_change() const { return to_double(largest); }
    /// Returns the norm of the difference as a part of that of the first tensor.
    double relative() const {
        if (std::isinf(largest)) return INFINITY;
        return difference == 0 ? 0 : to_double(std::sqrt(difference / first));
    }

    static bool can_compare(cairn::dtype a, cairn::dtype b) {
        auto const is_packed = [](cairn::dtype d) {
            return cairn::info(d).kind == cairn::dtype_class::packed;
        };
        return a == b || (!is_packed(a) && !is_packed(b));
    }
    /// Adds pieces of the two, of the same shape.
    /// @pre can_compare(a_type, b_type)
    void add(const loaded_box& a, cairn::dtype a_type, const loaded_box& b, cairn::dtype b_type) {
        using enum cairn::dtype;
        auto const is_wide = [](cairn::dtype d) {
            return d == int64 || d == uint64 || d == float64 || d == complex128;
        };
        if (is_wide(a_type) || is_wide(b_type))
            add_as<long double>(a, a_type, b, b_type);
        else
            add_as<double>(a, a_type, b, b_type);
    }

private:
    /// @tparam Number  Holds the elements, and their squares.
    template <class Number>
    void add_as(const loaded_box& a, cairn::dtype a_type, const loaded_box& b,
                cairn::dtype b_type) {
        using namespace cairn;
        auto const is = [](dtype d, dtype_class c) { return info(d).kind == c; };
        if (is(a_type, dtype_class::packed)) a_type = b_type = dtype::uint8;
        bool const complex = is(a_type, dtype_class::complex) || is(b_type, dtype_class::complex);
        constexpr std::int64_t at_once = 4096;
        std::size_t const parts = complex ? 2 : 1;
        std::vector<Number> x(parts * at_once), y(x.size());
        std::vector<double> doubles(x.size());
        elements += static_cast<std::uint64_t>(a.region.volume());
        if (a_type == b_type)
            for (std::size_t i = 0; i < a.bytes.size(); ++i) bytes += a.bytes[i] != b.bytes[i];
        for (std::int64_t at = 0; at < a.region.volume(); at += at_once) {
            auto const n = std::min(at_once, a.region.volume() - at);
            auto const widen = [&](const loaded_box& from, dtype type, Number* to) {
                auto const* begin =
                    from.bytes.data() + static_cast<std::size_t>(at) * size_of(type);
                convert_elements(
                    const_tensor_view(type, {n}, begin),
                    tensor_view(complex ? dtype::complex128 : dtype::float64, {n}, doubles.data()));
                auto const count = static_cast<std::size_t>(n);
                std::copy_n(doubles.begin(), parts * count, to);
                if (type == dtype::int64) widen_integers<std::int64_t>(begin, count, parts, to);
                if (type == dtype::uint64) widen_integers<std::uint64_t>(begin, count, parts, to);
                return begin;
            };
            auto const *from = widen(a, a_type, x.data()), *with = widen(b, b_type, y.data());
            sums<Number> here;
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
                bool other = false;
                for (std::size_t k = i * parts; k < (i + 1) * parts; ++k)
                    other = here.add(x[k], y[k]) || other;
                auto const size = size_of(a_type);
                if (a_type == b_type)
                    other = std::memcmp(from + i * size, with + i * size, size) != 0;
                changed += other ? 1 : 0;
            }
            first += here.first;
            difference += here.difference;
            largest = std::max<long double>(largest, here.largest);
        }
    }
    static double to_double(long double d) {
        return d > std::numeric_limits<double>::max() ? INFINITY : static_cast<double>(d);
    }
    /// Writes integers in place of the doubles that they have become, `step` apart.
    template <class T, class Number>
    static void widen_integers(const std::byte* from, std::size_t n, std::size_t step, Number* to) {
        for (std::size_t i = 0; i < n; ++i) {
            T exact{};
            std::memcpy(&exact, from + i * sizeof(T), sizeof(T));
            to[i * step] = static_cast<Number>(exact);
        }
    }
    /// Of a few elements.
    template <class Number>
    struct sums {
        Number first = 0, difference = 0, largest = 0;

        /// @return whether they differ
        bool add(Number x, Number y) {
            auto const d = std::abs(x - y);
            if (std::isfinite(x) && std::isfinite(y)) {
                first += x * x;
                difference += d * d;
                largest = std::max(largest, d);
                return x != y;
            }
            if (x == y || (std::isnan(x) && std::isnan(y))) return false;
            largest = INFINITY;
            return true;
        }
    };
};

}  // namespace tool

#endif
