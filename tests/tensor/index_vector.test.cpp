// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/index_vector.hpp>

#include <cairn/tensor/dtype.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(sizes_and_dtypes)

using namespace cairn;

BOOST_AUTO_TEST_CASE(an_index_vector_is_made_from_any_range_of_integers) {
    const std::vector<int> v{2, 3};
    const std::array<std::size_t, 2> a{2, 3};
    const long c[] = {2, 3};
    BOOST_TEST((index_vector(v) == index_vector{2, 3}));
    BOOST_TEST((index_vector(a) == index_vector{2, 3}));
    BOOST_TEST((index_vector(c) == index_vector{2, 3}));
    BOOST_TEST((index_vector(2, 3) == index_vector{3, 3}));
    BOOST_TEST((index_vector{2, 3} < index_vector{3}));
    BOOST_TEST(index_vector{}.product() == 1);
    BOOST_TEST((index_vector{4, 0, 2}).product() == 0);
    BOOST_TEST(to_string(index_vector{4, 6}) == "[4, 6]");
    BOOST_TEST(to_string(index_vector{}) == "[]");
}

BOOST_AUTO_TEST_CASE(strides_are_row_major_as_pytorchs) {
    BOOST_TEST((row_major_strides({}) == index_vector{}));
    BOOST_TEST((row_major_strides({2, 3, 4}) == index_vector{12, 4, 1}));
    BOOST_TEST((row_major_strides({5, 0, 4}) == index_vector{4, 4, 1}));
    BOOST_TEST((row_major_strides({3, 1, 2}) == index_vector{2, 2, 1}));
}

BOOST_AUTO_TEST_CASE(names_and_numbers_of_dtypes_are_one_to_one) {
    std::set<std::string> names;
    for (int i = 0; i < dtype_count; ++i) {
        const auto d = static_cast<dtype>(i);
        names.emplace(name_of(d));
        const auto back = dtype_from_name(name_of(d));
        BOOST_TEST_REQUIRE(back.has_value());
        BOOST_TEST((*back == d));
    }
    BOOST_TEST(names.size() == static_cast<std::size_t>(dtype_count));
    BOOST_TEST(!dtype_from_name("float"));
    BOOST_TEST(name_of(dtype::float4_e2m1fn_x2) ==
               "float4_e2m1fn_x2");  // the last: the table is in step
    BOOST_TEST(size_of(dtype::complex128) == 16U);
    BOOST_TEST(size_of(dtype::boolean) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
