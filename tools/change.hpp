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
#include <vector>

namespace tool {

/// How two tensors of the same shape differ. Of complex elements the real and imaginary parts are
/// compared, of packed ones the bytes.
struct tensor_change {
    std::uint64_t elements = 0;
    /// Elements with other bytes or, of two dtypes, another value.
    std::uint64_t changed = 0;
    std::uint64_t bytes = 0;  ///< Bytes that differ, if the dtype is the same.
    double largest = 0;       ///< Absolute difference; infinite for NaN against a number.
    // Sums of squares, where both elements are finite.
    double difference = 0;
    double first = 0;  ///< Of the first tensor.

    /// Returns the norm of the difference as a part of that of the first tensor.
    double relative() const { return difference == 0 ? 0 : std::sqrt(difference / first); }

    static bool can_compare(cairn::dtype a, cairn::dtype b) {
        auto const is_packed = [](cairn::dtype d) {
            return cairn::info(d).kind == cairn::dtype_class::packed;
        };
        return a == b || (!is_packed(a) && !is_packed(b));
    }
    /// Adds pieces of the two, of the same shape.
    /// @pre can_compare(a_type, b_type)
    void add(const loaded_box& a, cairn::dtype a_type, const loaded_box& b, cairn::dtype b_type) {
        using namespace cairn;
        auto const is = [](dtype d, dtype_class c) { return info(d).kind == c; };
        if (is(a_type, dtype_class::packed)) a_type = b_type = dtype::uint8;
        bool const complex = is(a_type, dtype_class::complex) || is(b_type, dtype_class::complex);
        constexpr std::int64_t at_once = 4096;
        std::size_t const parts = complex ? 2 : 1;
        std::vector<double> x(parts * at_once), y(x.size());
        elements += static_cast<std::uint64_t>(a.region.volume());
        if (a_type == b_type)
            for (std::size_t i = 0; i < a.bytes.size(); ++i) bytes += a.bytes[i] != b.bytes[i];
        for (std::int64_t at = 0; at < a.region.volume(); at += at_once) {
            auto const n = std::min(at_once, a.region.volume() - at);
            auto const widen = [&](const loaded_box& from, dtype type, double* to) {
                auto const* begin =
                    from.bytes.data() + static_cast<std::size_t>(at) * size_of(type);
                convert_elements(
                    const_tensor_view(type, {n}, begin),
                    tensor_view(complex ? dtype::complex128 : dtype::float64, {n}, to));
                return begin;
            };
            auto const *from = widen(a, a_type, x.data()), *with = widen(b, b_type, y.data());
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
                bool other = false;
                for (std::size_t k = i * parts; k < (i + 1) * parts; ++k)
                    other = add_numbers(x[k], y[k]) || other;
                auto const size = size_of(a_type);
                if (a_type == b_type)
                    other = std::memcmp(from + i * size, with + i * size, size) != 0;
                changed += other ? 1 : 0;
            }
        }
    }

private:
    /// @return whether they differ
    bool add_numbers(double x, double y) {
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

}  // namespace tool

#endif
