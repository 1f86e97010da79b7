// SPDX-License-Identifier: Apache-2.0
// How two tensors of the same shape differ.
#include "change.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

BOOST_AUTO_TEST_SUITE(tools_change)

namespace {

template <class T>
tool::loaded_box box_of(const std::vector<T>& x) {
    tool::loaded_box b;
    b.bytes.resize(x.size() * sizeof(T));
    std::memcpy(b.bytes.data(), x.data(), b.bytes.size());
    b.region = cairn::box::whole({static_cast<std::int64_t>(x.size())});
    return b;
}
template <class T, class U>
tool::tensor_change change_of(const std::vector<T>& a, const std::vector<U>& b) {
    tool::tensor_change c;
    c.add(box_of(a), cairn::dtype_of<T>, box_of(b), cairn::dtype_of<U>);
    return c;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_change_is_told_by_its_largest_and_its_norm) {
    std::vector<float> const a{3, -4, 0, 0};
    auto const c = change_of(a, std::vector<float>{3, -4, 1, -2});
    BOOST_TEST(c.elements == 4u);
    BOOST_TEST(c.changed == 2u);
    BOOST_TEST(c.largest_change() == 2);
    BOOST_TEST(c.relative() == std::sqrt(5.0) / 5, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(change_of(a, a).changed == 0u);
    BOOST_TEST(change_of(a, a).relative() == 0);
}

BOOST_AUTO_TEST_CASE(elements_of_two_dtypes_are_compared_by_value) {
    std::vector<float> const a{1, 0.5f, 2};
    auto const c = change_of(a, std::vector<double>{1, 0.5, 2.25});
    BOOST_TEST(c.changed == 1u);
    BOOST_TEST(c.largest_change() == 0.25);
    BOOST_TEST(change_of(std::vector<std::int32_t>{1, 2}, std::vector<float>{1, 2}).changed == 0u);
}

BOOST_AUTO_TEST_CASE(a_change_that_a_double_does_not_hold_is_counted) {
    auto const large = std::int64_t{1} << 60;
    auto const c =
        change_of(std::vector<std::int64_t>{large, 5}, std::vector<std::int64_t>{large + 1, 5});
    BOOST_TEST(c.changed == 1u);
    BOOST_TEST(c.bytes == 1u);
    BOOST_TEST(c.largest_change() == 1);
    BOOST_TEST(c.relative() == std::ldexp(1.0, -60), boost::test_tools::tolerance(1e-12));
    auto const half = std::uint64_t{1} << 63;
    BOOST_TEST(change_of(std::vector{half}, std::vector{half + 1}).largest_change() == 1);
    std::vector<std::int64_t> const odd{(std::int64_t{1} << 53) + 1};
    for (auto const& of_two : {change_of(odd, std::vector<double>{0x1p53}),
                               change_of(std::vector<std::complex<double>>{0x1p53}, odd)}) {
        BOOST_TEST(of_two.changed == 1u);
        BOOST_TEST(of_two.largest_change() == 1);
    }
    // Other bytes, the same value.
    BOOST_TEST(change_of(std::vector<float>{0.f}, std::vector<float>{-0.f}).changed == 1u);
}

BOOST_AUTO_TEST_CASE(a_change_whose_square_a_double_does_not_hold_has_a_norm) {
    auto const relative = [](double a, double b) {
        return change_of(std::vector{a}, std::vector{b}).relative();
    };
    BOOST_TEST(relative(1e200, 2e200) == 1, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(relative(1e-200, 3e-200) == 2, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(relative(1.7e308, -1.7e308) == 2, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(std::isinf(
        change_of(std::vector<double>{1.7e308}, std::vector<double>{-1.7e308}).largest_change()));
    BOOST_TEST(std::isinf(relative(0, 1)));
}

BOOST_AUTO_TEST_CASE(what_became_nan_has_changed_without_limit) {
    std::vector<double> const a{NAN, 1, INFINITY, 2};
    auto const same = change_of(a, a);
    BOOST_TEST(same.changed == 0u);
    BOOST_TEST(same.largest_change() == 0);
    auto const c = change_of(a, std::vector<double>{NAN, NAN, INFINITY, 3});
    BOOST_TEST(c.changed == 2u);
    BOOST_TEST(std::isinf(c.largest_change()));
    BOOST_TEST(std::isinf(c.relative()));
    BOOST_TEST(c.difference == 1);
}

BOOST_AUTO_TEST_CASE(pieces_add_up) {
    std::vector<float> const a(10000, 1), b(10000, 1.5f);
    tool::tensor_change c;
    for (int i = 0; i < 3; ++i)
        c.add(box_of(a), cairn::dtype::float32, box_of(b), cairn::dtype::float32);
    BOOST_TEST(c.elements == 30000u);
    BOOST_TEST(c.changed == 30000u);
    BOOST_TEST(c.relative() == 0.5, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
