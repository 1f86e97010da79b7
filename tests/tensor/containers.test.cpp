// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/containers.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(containers)

using namespace cairn;

static_assert(Tensor<std::vector<float>> && Tensor<const std::vector<float>&>);
static_assert(Tensor<std::array<std::uint16_t, 3>> && Tensor<std::span<const double>>);
static_assert(Tensor<std::span<double, 4>> && Tensor<std::array<bool, 2>>);
static_assert(Tensor<std::vector<std::complex<float>>>);
static_assert(!Tensor<std::vector<bool>> && !Tensor<std::vector<std::byte>>);
static_assert(!Tensor<std::span<std::byte>> && !Tensor<std::vector<std::string>>);
static_assert(!Tensor<std::vector<std::vector<float>>> && !Tensor<std::vector<char>>);

namespace {

template <class T>
auto view_of(T& t) {
    return tensor_traits<std::remove_cv_t<T>>::view(t);
}

template <class T>
constexpr bool loadable = std::is_same_v<decltype(view_of(std::declval<T&>())), tensor_view>;

static_assert(loadable<std::vector<float>> && !loadable<const std::vector<float>>);
static_assert(loadable<std::array<int, 2>> && !loadable<const std::array<int, 2>>);
static_assert(loadable<std::span<float>> && loadable<const std::span<float>>);
static_assert(!loadable<std::span<const float>>);

template <class T>
void check(T& t, const void* data, std::int64_t n, dtype type) {
    const const_tensor_view v = view_of(t);
    BOOST_TEST(static_cast<const void*>(v.data) == data);
    BOOST_TEST((v.shape == index_vector{n}));
    BOOST_TEST((v.strides == index_vector{1}));
    BOOST_TEST((v.type == type));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_container_is_a_tensor_of_one_dimension_in_place) {
    std::vector<float> v(3);
    check(v, v.data(), 3, dtype::float32);
    check(std::as_const(v), v.data(), 3, dtype::float32);
    std::array<std::int8_t, 5> a{};
    check(a, a.data(), 5, dtype::int8);
    const std::span<float> s = std::span(v).subspan(1);
    check(s, v.data() + 1, 2, dtype::float32);
    std::span<const float, 2> c(v.data(), 2);
    check(c, v.data(), 2, dtype::float32);
    std::array<bool, 2> b{};
    check(b, b.data(), 2, dtype::boolean);
}

BOOST_AUTO_TEST_CASE(an_empty_container_is_a_tensor_without_elements) {
    std::vector<double> v;
    check(v, v.data(), 0, dtype::float64);
    std::array<double, 0> a{};
    check(a, a.data(), 0, dtype::float64);
}

BOOST_AUTO_TEST_SUITE_END()
