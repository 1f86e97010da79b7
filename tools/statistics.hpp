// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_STATISTICS_HPP
#define CAIRN_TOOLS_STATISTICS_HPP

#include "block_sums.hpp"
#include "histogram.hpp"

#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

namespace tool {

/// The value of an element without loss: a double does not hold all integers of 64 bits.
using element_value = std::variant<double, std::int64_t, std::uint64_t>;

inline double as_double(const element_value& v) {
    return std::visit([](auto x) { return static_cast<double>(x); }, v);
}

/// What the elements of a tensor are like. Of complex elements: their magnitudes. Of a packed
/// dtype: the numbers in its elements.
struct tensor_statistics {
    std::uint64_t elements = 0;  ///< All that were looked at.
    std::uint64_t zeros = 0, nans = 0, infs = 0;
    // Of finite elements; without any, there is no minimum and no maximum.
    std::optional<element_value> min{}, max{};
    double mean = std::numeric_limits<double>::quiet_NaN();
    /// Sum of the squares of the elements' differences from `mean`: of the largest doubles it is
    /// beyond their range.
    long double squares = 0;
    histogram bins{};  ///< Counted if its `most_bins` was set before.

    std::uint64_t finite() const { return elements - nans - infs; }
    /// Returns the standard deviation of the population: the sum of squares is divided by the
    /// number of elements. NaN without any.
    double deviation() const {
        return static_cast<double>(std::sqrt(squares / static_cast<long double>(finite())));
    }

    /// Adds other elements of the same tensor (Chan, Golub and LeVeque's formula).
    void merge(const tensor_statistics& other) {
        if (other.finite() != 0) {
            auto const n = static_cast<long double>(finite()),
                       m = static_cast<long double>(other.finite());
            if (finite() == 0) {
                mean = other.mean;
                squares = other.squares;
            } else {
                auto const difference = static_cast<long double>(other.mean) - mean;
                mean = static_cast<double>(mean + difference * (m / (n + m)));
                squares += other.squares + difference * difference * (n * m / (n + m));
            }
            if (!min || *other.min < *min) min = other.min;
            if (!max || *max < *other.max) max = other.max;
        }
        elements += other.elements;
        zeros += other.zeros;
        nans += other.nans;
        infs += other.infs;
        bins.merge(other.bins);
    }
};

/// Returns the values of all codes of a floating-point type of one or two bytes.
inline const std::vector<float>& values_of_codes(cairn::dtype type) {
    static auto const tables = [] {
        std::vector<std::uint16_t> codes(std::size_t{1} << 16);
        std::iota(codes.begin(), codes.end(), std::uint16_t{0});
        std::array<std::vector<float>, cairn::dtype_count> all;
        for (std::size_t i = 0; i < all.size(); ++i) {
            auto const narrow = static_cast<cairn::dtype>(i);
            auto const size = static_cast<std::int64_t>(cairn::size_of(narrow));
            if (cairn::info(narrow).kind != cairn::dtype_class::floating || size > 2) continue;
            auto const n = std::int64_t{1} << (8 * size);
            all[i].resize(static_cast<std::size_t>(n));
            // The low byte of each code, or both.
            cairn::convert_elements(cairn::const_tensor_view(narrow, {n}, {2 / size}, codes.data()),
                                    cairn::tensor_view(cairn::dtype::float32, {n}, all[i].data()));
        }
        return all;
    }();
    return tables[static_cast<std::size_t>(type)];
}

/// Adds elements block by block: each pass but the first finds the block in the cache, and no sum
/// has more terms than a block.
class element_statistics {
public:
    explicit element_statistics(tensor_statistics& into) : into_(into) {}

    /// Adds `n` elements of any alignment, one after the other.
    void add(cairn::dtype type, const std::byte* from, std::size_t n) {
        using cairn::dtype;
        using u8 = std::uint8_t;
        using u16 = std::uint16_t;
        auto const* const table = values_of_codes(type).data();
        auto const look_up = [table](auto code) { return table[code]; };
        switch (type) {
            case dtype::float64: return add_floats<double>(from, n);
            case dtype::float32: return add_floats<float>(from, n);
            case dtype::float16: return add_decoded<u16>(from, n, look_up);
            case dtype::bfloat16:
                return add_decoded<u16>(from, n, [](u16 code) {
                    return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
                });
            case dtype::float8_e4m3fn:
            case dtype::float8_e5m2:
            case dtype::float8_e4m3fnuz:
            case dtype::float8_e5m2fnuz:
            case dtype::float8_e8m0fnu: return add_decoded<u8>(from, n, look_up);
            case dtype::float4_e2m1fn_x2:
                add_decoded<u8>(from, n, [](u8 code) { return of_4_bits(code & 15); });
                return add_decoded<u8>(from, n, [](u8 code) { return of_4_bits(code >> 4); });
            case dtype::int64: return add_integers<std::int64_t>(from, n);
            case dtype::int32: return add_integers<std::int32_t>(from, n);
            case dtype::int16: return add_integers<std::int16_t>(from, n);
            case dtype::int8: return add_integers<std::int8_t>(from, n);
            case dtype::uint64: return add_integers<std::uint64_t>(from, n);
            case dtype::uint32: return add_integers<std::uint32_t>(from, n);
            case dtype::uint16: return add_integers<u16>(from, n);
            case dtype::uint8: return add_integers<u8>(from, n);
            case dtype::boolean: return add_integers<bool, u8>(from, n);
            case dtype::complex128:
                return add_decoded<std::complex<double>>(
                    from, n, [](const std::complex<double>& z) { return std::abs(z); });
            case dtype::complex64: return add_decoded<std::complex<float>>(from, n, magnitude);
            case dtype::complex32: return add_complex32(from, n);
        }
    }

private:
    static constexpr std::size_t block = 2048;

    static double magnitude(const std::complex<float>& z) {
        return std::abs(std::complex<double>(z));
    }
    static float of_4_bits(int code) {
        constexpr std::array magnitudes{0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f};
        auto const m = magnitudes[static_cast<std::size_t>(code & 7)];
        return code < 8 ? m : -m;
    }
    template <class F>
    void add_floats(const std::byte* from, std::size_t n) {
        for (std::size_t at = 0; at < n; at += block)
            into_.merge(added<F>(from + at * sizeof(F), std::min(block, n - at)));
    }
    /// @param value_of  Returns the float or double that stands for a code.
    template <class Code, class Decode>
    void add_decoded(const std::byte* from, std::size_t n, Decode value_of) {
        each_decoded<Code>(from, n, value_of, [&](auto part, auto const&) { into_.merge(part); });
    }
    template <class T, class Code = T>
    void add_integers(const std::byte* from, std::size_t n) {
        using value = std::conditional_t<sizeof(T) <= 2, float, double>;
        using exact = std::conditional_t<std::same_as<T, std::uint64_t>, T, std::int64_t>;
        if (into_.elements == 0) into_.bins.exponent = 0;
        each_decoded<Code>(
            from, n, [](Code code) { return static_cast<value>(static_cast<T>(code)); },
            [&](auto part, std::span<const Code> codes) {
                if constexpr (sizeof(T) == 8) {
                    exact low = codes[0], high = codes[0];
                    for (auto const v : codes) {
                        low = v < low ? v : low;
                        high = high < v ? v : high;
                    }
                    part.min = low;
                    part.max = high;
                } else {
                    part.min = static_cast<exact>(as_double(*part.min));
                    part.max = static_cast<exact>(as_double(*part.max));
                }
                into_.merge(part);
            });
    }
    void add_complex32(const std::byte* from, std::size_t n) {
        using cairn::dtype;
        std::array<std::complex<float>, block> wide;
        for (std::size_t at = 0; at < n; at += block) {
            auto const m = std::min(block, n - at);
            auto const shape = static_cast<std::int64_t>(m);
            cairn::convert_elements(
                {dtype::complex32, {shape}, from + at * cairn::size_of(dtype::complex32)},
                {dtype::complex64, {shape}, wide.data()});
            add(dtype::complex64, reinterpret_cast<const std::byte*>(wide.data()), m);
        }
    }
    /// Calls `f(statistics, codes)` for each block.
    template <class Code, class Decode, class F>
    void each_decoded(const std::byte* from, std::size_t n, Decode value_of, F f) {
        using value = decltype(value_of(Code{}));
        std::array<Code, block> codes{};
        std::array<value, block> values;
        for (std::size_t at = 0; at < n; at += block) {
            auto const m = std::min(block, n - at);
            std::memcpy(codes.data(), from + at * sizeof(Code), m * sizeof(Code));
            // All of them: g++ makes vectors only where their number is known.
            for (std::size_t i = 0; i < block; ++i) values[i] = value_of(codes[i]);
            f(added<value>(reinterpret_cast<const std::byte*>(values.data()), m),
              std::span<const Code>(codes).first(m));
        }
    }
    /// Returns the statistics of a block, but for the histogram, to which it is added.
    template <class F>
    tensor_statistics added(const std::byte* x, std::size_t n) {
        tensor_statistics part;
        part.elements = n;
        block_sums<F> sums(x, n);
        std::array<F, block> finite;
        if (!std::isfinite(sums.sum)) {
            n = copy_finite(x, n, finite.data(), part);
            x = reinterpret_cast<const std::byte*>(finite.data());
            sums = {x, n};
        }
        if (n == 0) return part;
        part.zeros = sums.zeros;
        auto const low = static_cast<double>(sums.low), high = static_cast<double>(sums.high);
        part.min = low;
        part.max = high;
        part.mean = sums.sum / static_cast<double>(n);
        part.squares = squared_differences<F>(x, n, part.mean);
        if (!std::isfinite(part.squares)) sum_widely<F>(x, n, part);
        into_.bins.template add<F>(x, n, low, high);
        return part;
    }
    /// Of finite elements whose sums are beyond the range of a double.
    template <class F>
    static void sum_widely(const std::byte* x, std::size_t n, tensor_statistics& part) {
        long double sum = 0, squares = 0;
        for (std::size_t i = 0; i < n; ++i) sum += load<F>(x + i * sizeof(F));
        auto const mean = sum / static_cast<long double>(n);
        for (std::size_t i = 0; i < n; ++i) {
            auto const difference = load<F>(x + i * sizeof(F)) - mean;
            squares += difference * difference;
        }
        part.mean = static_cast<double>(mean);
        part.squares = squares;
    }
    template <class F>
    static std::size_t copy_finite(const std::byte* x, std::size_t n, F* to,
                                   tensor_statistics& count) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n; ++i) {
            auto const v = load<F>(x + i * sizeof(F));
            if (std::isnan(v))
                ++count.nans;
            else if (std::isinf(v))
                ++count.infs;
            else
                to[kept++] = v;
        }
        return kept;
    }

    tensor_statistics& into_;
};

}  // namespace tool

#endif
