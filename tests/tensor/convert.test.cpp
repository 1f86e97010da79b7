// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/detail/float_codec.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(convert)

namespace {

using namespace cairn;
using namespace cairn::detail;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Decodes and re-encodes all codes, and checks that each float between two neighbouring values
/// goes to the nearer one, and the middle to the even one. Finite values of one sign ascend.
template <class Codec>
void check_all_codes(int codes, int largest) {
    using code = typename Codec::code;
    for (int c = 0; c < codes; ++c) {
        const float v = Codec::decode(static_cast<code>(c));
        const code back = Codec::encode(v);
        if (std::isnan(v))
            BOOST_TEST_REQUIRE(std::isnan(Codec::decode(back)), c);
        else if (!(std::isinf(v) && !std::isinf(Codec::decode(back))))
            BOOST_TEST_REQUIRE(back == c);
    }
    for (int c = 0; c < largest; ++c) {
        const float low = Codec::decode(static_cast<code>(c));
        const float high = Codec::decode(static_cast<code>(c + 1));
        BOOST_TEST_REQUIRE(low < high);
        const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);
        BOOST_TEST_REQUIRE(Codec::encode(std::nextafter(middle, -infinity)) == c);
        BOOST_TEST_REQUIRE(Codec::encode(std::nextafter(middle, infinity)) == c + 1);
        BOOST_TEST_REQUIRE(Codec::encode(middle) == c + c % 2);
    }
}

template <class To, class From>
std::vector<To> converted(dtype from, dtype to, const std::vector<From>& values) {
    std::vector<To> out(values.size());
    const index_vector n{static_cast<std::int64_t>(values.size())};
    convert_elements({from, n, values.data()}, {to, n, out.data()});
    return out;
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values) {
    return converted<To>(dtype_of<From>, dtype_of<To>, values);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_code_of_every_format_survives) {
    check_all_codes<float16_codec>(65536, 0x7bff);
    check_all_codes<bfloat16_codec>(65536, 0x7f7f);
    check_all_codes<float8_e4m3fn_codec>(256, 0x7e);
    check_all_codes<float8_e5m2_codec>(256, 0x7b);
    check_all_codes<float8_e4m3fnuz_codec>(256, 0x7f);
    check_all_codes<float8_e5m2fnuz_codec>(256, 0x7f);
}

BOOST_AUTO_TEST_CASE(values_are_encoded_as_pytorch_does) {
    BOOST_TEST(float16_codec::encode(1.0F) == 0x3c00);
    BOOST_TEST(float16_codec::encode(-2.0F) == 0xc000);
    BOOST_TEST(float16_codec::encode(65504.0F) == 0x7bff);
    BOOST_TEST(float16_codec::encode(65519.0F) == 0x7bff);
    BOOST_TEST(float16_codec::encode(65520.0F) == 0x7c00);
    BOOST_TEST(float16_codec::encode(0x1p-24F) == 1);
    BOOST_TEST(float16_codec::encode(0x1p-25F) == 0);
    BOOST_TEST(float16_codec::encode(0x1.8p-25F) == 1);
    BOOST_TEST(float16_codec::encode(-0.0F) == 0x8000);
    BOOST_TEST(bfloat16_codec::encode(1.0F) == 0x3f80);
    BOOST_TEST(bfloat16_codec::encode(3.3895314e38F) == 0x7f7f);
    BOOST_TEST(bfloat16_codec::encode(std::numeric_limits<float>::max()) == 0x7f80);
    BOOST_TEST(float8_e4m3fn_codec::encode(448.0F) == 0x7e);
    BOOST_TEST(float8_e4m3fn_codec::encode(1e9F) == 0x7e);
    BOOST_TEST(float8_e4m3fn_codec::encode(-infinity) == 0xfe);
    BOOST_TEST(float8_e5m2_codec::encode(57344.0F) == 0x7b);
    BOOST_TEST(float8_e5m2_codec::encode(61440.0F) == 0x7c);
    BOOST_TEST(float8_e4m3fnuz_codec::encode(240.0F) == 0x7f);
    BOOST_TEST(float8_e4m3fnuz_codec::encode(248.0F) == 0x80);
    BOOST_TEST(float8_e4m3fnuz_codec::encode(-0.0F) == 0);
    BOOST_TEST(float8_e5m2fnuz_codec::encode(57344.0F) == 0x7f);
    BOOST_TEST(float8_e5m2fnuz_codec::encode(infinity) == 0x80);
    BOOST_TEST(float8_e5m2fnuz_codec::decode(0x7f) == 57344.0F);
}

BOOST_AUTO_TEST_CASE(e8m0_has_only_powers_of_two) {
    for (int c = 0; c < 255; ++c) {
        const auto code = static_cast<std::uint8_t>(c);
        BOOST_TEST(float8_e8m0fnu_codec::decode(code) == std::ldexp(1.0F, c - 127));
        BOOST_TEST(float8_e8m0fnu_codec::encode(std::ldexp(1.0F, c - 127)) == c);
    }
    BOOST_TEST(std::isnan(float8_e8m0fnu_codec::decode(0xff)));
    BOOST_TEST(float8_e8m0fnu_codec::encode(infinity) == 0xff);
    BOOST_TEST(float8_e8m0fnu_codec::encode(0.0F) == 0);
    BOOST_TEST(float8_e8m0fnu_codec::encode(-1.49F) == 127);
    BOOST_TEST(float8_e8m0fnu_codec::encode(1.5F) == 128);
}

BOOST_AUTO_TEST_CASE(integers_wrap_and_floats_truncate) {
    BOOST_TEST((converted<std::int8_t>(std::vector<std::int32_t>{127, 128, -129, 256}) ==
                std::vector<std::int8_t>{127, -128, 127, 0}));
    BOOST_TEST((converted<std::uint8_t>(std::vector<std::int64_t>{-1, 300}) ==
                std::vector<std::uint8_t>{255, 44}));
    BOOST_TEST((converted<std::int64_t>(std::vector<std::uint64_t>{UINT64_MAX, 5}) ==
                std::vector<std::int64_t>{-1, 5}));
    BOOST_TEST((converted<std::int32_t>(std::vector<float>{1.9F, -1.9F, 3e9F, infinity}) ==
                std::vector<std::int32_t>{1, -1, INT32_MIN, INT32_MIN}));
    BOOST_TEST((converted<std::int32_t>(std::vector<double>{2147483647.9, -2147483648.9}) ==
                std::vector<std::int32_t>{INT32_MAX, INT32_MIN}));
    BOOST_TEST((converted<std::uint64_t>(std::vector<double>{0x1p63, 0x1.8p63, 3.5}) ==
                std::vector<std::uint64_t>{std::uint64_t{1} << 63, std::uint64_t{3} << 62, 3}));
    BOOST_TEST((converted<std::int8_t>(std::vector<float>{300.0F, -300.7F, 1e30F}) ==
                std::vector<std::int8_t>{44, -44, 0}));
    // not by way of double: this lies just above the middle between two floats
    const std::int64_t above = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
    BOOST_TEST(converted<float>(std::vector<std::int64_t>{above})[0] == 0x1.000002p60F);
}

BOOST_AUTO_TEST_CASE(a_bool_is_true_unless_it_is_zero) {
    using bytes = std::vector<std::uint8_t>;
    const std::vector<float> values{0.0F, -0.0F, 0.25F, std::nanf(""), infinity};
    BOOST_TEST(
        (converted<std::uint8_t>(dtype::f32, dtype::boolean, values) == bytes{0, 0, 1, 1, 1}));
    BOOST_TEST((converted<std::uint8_t>(dtype::i64, dtype::boolean,
                                        std::vector<std::int64_t>{0, 256}) == bytes{0, 1}));
    BOOST_TEST((converted<float>(dtype::boolean, dtype::f32, bytes{0, 1, 7}) ==
                std::vector<float>{0, 1, 1}));
}

BOOST_AUTO_TEST_CASE(double_goes_to_half_by_way_of_float) {
    // as PyTorch: the first rounding makes a tie, the second takes the even neighbour
    const std::vector<double> v{1 + 0x1p-11 + 0x1p-40};
    BOOST_TEST(converted<std::uint16_t>(dtype::f64, dtype::f16, v)[0] == 0x3c00);
}

BOOST_AUTO_TEST_CASE(complex_keeps_both_parts) {
    using c64 = std::complex<float>;
    using c128 = std::complex<double>;
    BOOST_TEST((converted<c64>(std::vector<c128>{{1.5, -2}, {3, 0.1}}) ==
                std::vector<c64>{{1.5F, -2}, {3, 0.1F}}));
    BOOST_TEST((converted<c64>(std::vector<std::int32_t>{4, -1}) == std::vector<c64>{4, -1}));
    BOOST_TEST((converted<std::uint32_t>(dtype::complex64, dtype::complex32,
                                         std::vector<c64>{{1, -2}})[0] == 0xc0003c00U));
}

BOOST_AUTO_TEST_CASE(complex_to_real_is_refused_and_packed_to_any_other) {
    for (int f = 0; f < dtype_count; ++f)
        for (int t = 0; t < dtype_count; ++t) {
            const auto from = static_cast<dtype>(f);
            const auto to = static_cast<dtype>(t);
            const auto is = [](dtype d, dtype_class c) { return info(d).kind == c; };
            const bool loses =
                (is(from, dtype_class::complex) && !is(to, dtype_class::complex)) ||
                (from != to && (is(from, dtype_class::packed) || is(to, dtype_class::packed)));
            BOOST_TEST(can_convert(from, to) == !loses);
            const auto attempt = [&] {
                convert_elements({from, index_vector{0}, nullptr}, {to, index_vector{0}, nullptr});
            };
            if (loses)
                BOOST_CHECK_EXCEPTION(attempt(), error, [](const error& e) {
                    return e.code() == make_error_code(errc::dtype_mismatch);
                });
            else
                BOOST_CHECK_NO_THROW(attempt());
        }
}

BOOST_AUTO_TEST_CASE(memory_of_a_device_is_not_followed) {
    float from = 1;
    double to = 0;
    for (auto const kind : {memory_kind::cuda, own_memory_kind(0)}) {
        const auto attempt = [&] {
            convert_elements({dtype::f32, index_vector{}, &from, device_id{kind, 0}},
                             {dtype::f64, index_vector{}, &to});
        };
        BOOST_CHECK_EXCEPTION(attempt(), error, [](const error& e) {
            return e.code() == make_error_code(errc::invalid_argument);
        });
    }
    BOOST_TEST(to == 0);
}

BOOST_AUTO_TEST_CASE(small_integers_survive_every_real_dtype) {
    const std::vector<std::uint8_t> values{1, 2, 4, 8, 1, 2};  // e8m0 has powers of two only
    const index_vector extents{2, 3};
    for (int t = 0; t < dtype_count; ++t)
        for (int u = 0; u < dtype_count; ++u) {
            const auto first = static_cast<dtype>(t);
            const auto second = static_cast<dtype>(u);
            if (!can_convert(first, dtype::u8) || !can_convert(second, dtype::u8)) continue;
            std::vector<std::byte> a(6 * 8);
            std::vector<std::byte> b(6 * 8);
            std::vector<std::uint8_t> back(6);
            convert_elements({dtype::u8, extents, values.data()}, {first, extents, a.data()});
            convert_elements({first, extents, a.data()}, {second, extents, b.data()});
            convert_elements({second, extents, b.data()}, {dtype::u8, extents, back.data()});
            auto expected = values;
            if (first == dtype::boolean || second == dtype::boolean)
                std::fill(expected.begin(), expected.end(), std::uint8_t{1});
            BOOST_TEST((back == expected), name_of(first) << " " << name_of(second));
        }
}

BOOST_AUTO_TEST_CASE(strides_and_alignment_are_free) {
    // 2 x 700, transposed at the source, reversed at an odd address at the target
    constexpr std::int64_t columns = 700;
    std::vector<double> from(2 * columns);
    std::iota(from.begin(), from.end(), -700.0);
    std::vector<std::byte> memory(2 * columns * 4 + 1);
    const tensor_view to(dtype::f32, index_vector{2, columns}, index_vector{columns, -1},
                         memory.data() + 1 + 4 * (columns - 1));
    convert_elements({dtype::f64, index_vector{2, columns}, index_vector{1, 2}, from.data()}, to);
    for (std::int64_t r = 0; r < 2; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
            float v = 0;
            std::memcpy(&v, to.data + 4 * (r * columns - c), 4);
            BOOST_TEST_REQUIRE(v == static_cast<float>(from[static_cast<std::size_t>(2 * c + r)]));
        }
}

BOOST_AUTO_TEST_CASE(sources_may_be_repeated_or_have_zero_dimensions) {
    const double x = 2.5;
    float y[3] = {};
    convert_elements({dtype::f64, index_vector{3}, index_vector{0}, &x},
                     {dtype::f32, index_vector{3}, y});
    BOOST_TEST((y[0] == 2.5F && y[1] == 2.5F && y[2] == 2.5F));
    std::complex<float> z;
    convert_elements({dtype::f64, index_vector{}, &x}, {dtype::complex64, index_vector{}, &z});
    BOOST_TEST((z == std::complex<float>(2.5F, 0)));
}

BOOST_AUTO_TEST_SUITE_END()
