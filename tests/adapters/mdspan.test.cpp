// SPDX-License-Identifier: Apache-2.0
#include <cairn/adapters/mdspan.hpp>

#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

BOOST_AUTO_TEST_SUITE(mdspan_like)

using namespace cairn;

namespace {

/// What std::mdspan<T, dextents<int, Rank>, layout_stride> has; the standard's is C++23.
template <class T, std::size_t Rank, class Reference = T&>
struct mdspan {
    using reference = Reference;
    static constexpr std::size_t rank() { return Rank; }
    int extent(std::size_t d) const { return extents.at(d); }
    int stride(std::size_t d) const
        requires(Rank > 0)
    {
        return strides.at(d);
    }
    T* data_handle() const { return data; }

    T* data = nullptr;
    std::array<int, Rank> extents{};
    std::array<int, Rank> strides{};
};

/// No more than the concept's table asks for: rank known at run time, no `reference`.
template <class T>
struct least {
    std::vector<long> n;
    T* p;
    unsigned rank() const { return static_cast<unsigned>(n.size()); }
    long extent(std::size_t d) const { return n[d]; }
    long stride(std::size_t) const { return 1; }
    T* data_handle() const { return p; }
};

struct without_strides {
    bool strided = true;
    float* p = nullptr;
    std::size_t rank() const { return 1; }
    std::size_t extent(std::size_t) const { return 2; }
    std::size_t stride(std::size_t) const { return 1; }
    float* data_handle() const { return p; }
    bool is_strided() const { return strided; }
};

// One clause of the table broken in each.
struct no_extent : mdspan<float, 2> {
    void extent(std::size_t) const = delete;
};
struct no_stride : mdspan<float, 2> {
    void stride(std::size_t) const = delete;
};
struct no_rank : mdspan<float, 2> {
    void rank() const = delete;
};
struct fancy_handle : mdspan<float, 2> {
    std::shared_ptr<float> data_handle() const { return nullptr; }
};

template <class T>
constexpr bool loadable =
    std::is_same_v<decltype(tensor_traits<T>::view(std::declval<const T&>())), tensor_view>;

static_assert(MdspanLike<mdspan<float, 2>> && Tensor<mdspan<float, 2>>);
static_assert(Tensor<const mdspan<const double, 3>&> && Tensor<least<int>>);
static_assert(!Tensor<no_extent> && !Tensor<no_stride> && !Tensor<no_rank>);
static_assert(!Tensor<fancy_handle> && !Tensor<mdspan<char, 2>>);
static_assert(!Tensor<mdspan<float, 2, float>>, "values that are not memory's");
static_assert(!MdspanLike<std::span<float>> && !MdspanLike<std::vector<float>>);
static_assert(loadable<mdspan<float, 2>> && !loadable<mdspan<const float, 2>>);

}  // namespace

BOOST_AUTO_TEST_CASE(extents_and_strides_are_taken_over) {
    std::vector<float> memory(24);
    std::iota(memory.begin(), memory.end(), 0.F);
    const mdspan<float, 3> m{memory.data(), {2, 3, 4}, {1, 2, 6}};
    const tensor_view v = tensor_traits<mdspan<float, 3>>::view(m);
    BOOST_TEST((v.shape == index_vector{2, 3, 4}));
    BOOST_TEST((v.strides == index_vector{1, 2, 6}));
    BOOST_TEST((v.type == dtype::float32));
    BOOST_TEST(static_cast<void*>(v.data) == memory.data());
    const least<float> l{{5}, memory.data()};
    BOOST_TEST((tensor_traits<least<float>>::view(l).shape == index_vector{5}));
}

BOOST_AUTO_TEST_CASE(a_view_of_no_dimensions_has_one_element) {
    double x = 7;
    const mdspan<double, 0> m{&x, {}, {}};  // its stride() cannot be called
    const least<double> l{{}, &x};
    for (const tensor_view& v :
         {tensor_traits<mdspan<double, 0>>::view(m), tensor_traits<least<double>>::view(l)}) {
        BOOST_TEST(v.shape.empty());
        BOOST_TEST(v.elements() == 1);
        BOOST_TEST(static_cast<void*>(v.data) == &x);
    }
}

BOOST_AUTO_TEST_CASE(a_layout_without_strides_is_refused) {
    float x[2] = {};
    BOOST_CHECK_NO_THROW(tensor_traits<without_strides>::view({true, x}));
    BOOST_CHECK_EXCEPTION(tensor_traits<without_strides>::view({false, x}), error,
                          [](const error& e) { return e.code() == errc::invalid_state; });
}

BOOST_AUTO_TEST_CASE(what_is_saved_from_const_elements_loads_into_another_layout) {
    memory_store store;
    std::vector<float> from(6);
    std::iota(from.begin(), from.end(), 0.F);
    mdspan<const float, 2> right{from.data(), {2, 3}, {3, 1}};
    save(state_dict{{"m", right}}, "ckpt", store);
    std::vector<float> to(6);
    mdspan<float, 2> const left{to.data(), {2, 3}, {1, 2}};
    state_dict target{{"m", left}};
    load(target, "ckpt", store);
    BOOST_TEST(to == (std::vector<float>{0, 3, 1, 4, 2, 5}));
    state_dict read_only{{"m", right}};
    BOOST_CHECK_EXCEPTION(load(read_only, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::invalid_state && e.context().fqn == "m";
    });
}

#ifdef __cpp_lib_mdspan
BOOST_AUTO_TEST_CASE(the_mdspan_of_the_standard_has_a_view) {
    std::vector<float> memory(6);
    std::mdspan<float, std::dextents<int, 2>, std::layout_left> m(memory.data(), 2, 3);
    BOOST_TEST((tensor_traits<decltype(m)>::view(m).strides == index_vector{1, 2}));
    std::mdspan<float, std::extents<int>> scalar(memory.data());
    BOOST_TEST(tensor_traits<decltype(scalar)>::view(scalar).shape.empty());
}
#endif

BOOST_AUTO_TEST_SUITE_END()
