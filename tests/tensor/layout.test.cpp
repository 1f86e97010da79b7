// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/detail/paired_nest.hpp>
#include <cairn/tensor/host_tensor.hpp>
#include <cairn/tensor/layout.hpp>

#include "oracle.hpp"
#include "support/random_strides.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(layout)

namespace {

using namespace cairn;

bool has_code(const error& e, errc c) {
    return e.code() == make_error_code(c);
}

const std::byte* element(const const_tensor_view& v, const index_vector& at) {
    return v.data + oracle::dot(at, v.strides) * static_cast<std::int64_t>(size_of(v.type));
}

const_tensor_view view_of(dtype t, index_vector extents, index_vector strides) {
    return {t, std::move(extents), std::move(strides), nullptr};
}

/// Memory in which a view of these extents lies somewhere, with strides of a random layout.
struct scattered {
    scattered(std::mt19937& random, dtype t, const index_vector& extents, bool may_repeat) {
        oracle::random_strides const random_layout(random, extents, may_repeat);
        strides = random_layout.strides;
        const std::size_t skew = static_cast<std::size_t>(oracle::pick(random, 0, 3));
        memory.resize(static_cast<std::size_t>(random_layout.elements) * size_of(t) + skew);
        for (auto& b : memory) b = static_cast<std::byte>(random());
        at = memory.data() + skew + static_cast<std::size_t>(random_layout.first) * size_of(t);
    }

    index_vector strides;
    std::vector<std::byte> memory;
    std::byte* at = nullptr;
};

}  // namespace

BOOST_AUTO_TEST_CASE(row_major_is_what_pytorch_calls_contiguous) {
    BOOST_TEST(is_row_major(view_of(dtype::f32, {}, {})));
    BOOST_TEST(is_row_major(view_of(dtype::f32, {2, 3}, {3, 1})));
    BOOST_TEST(is_row_major(view_of(dtype::f32, {2, 1, 3}, {3, 99, 1})));
    BOOST_TEST(is_row_major(view_of(dtype::f32, {0, 3}, {7, 7})));
    BOOST_TEST(!is_row_major(view_of(dtype::f32, {2, 3}, {1, 2})));
    BOOST_TEST(!is_row_major(view_of(dtype::f32, {2, 3}, {4, 1})));
    BOOST_TEST(!is_row_major(view_of(dtype::f32, {3}, {-1})));
    BOOST_TEST(!is_row_major(view_of(dtype::f32, {3}, {0})));
}

BOOST_AUTO_TEST_CASE(dense_fills_memory_in_any_order) {
    BOOST_TEST(is_dense(view_of(dtype::f32, {}, {})));
    BOOST_TEST(is_dense(view_of(dtype::f32, {2, 3}, {1, 2})));                // transposed
    BOOST_TEST(is_dense(view_of(dtype::f32, {2, 3, 4, 5}, {60, 1, 15, 3})));  // channels last
    BOOST_TEST(is_dense(view_of(dtype::f32, {2, 1, 3}, {1, 0, 2})));
    BOOST_TEST(is_dense(view_of(dtype::f32, {0, 3}, {7, 7})));
    BOOST_TEST(!is_dense(view_of(dtype::f32, {2, 3}, {1, 3})));   // a hole
    BOOST_TEST(!is_dense(view_of(dtype::f32, {2, 3}, {1, 1})));   // overlap
    BOOST_TEST(!is_dense(view_of(dtype::f32, {2, 3}, {0, 1})));   // repeats
    BOOST_TEST(!is_dense(view_of(dtype::f32, {2, 3}, {-3, 1})));  // memory before `data`
}

BOOST_AUTO_TEST_CASE(dense_agrees_with_a_list_of_offsets) {
    std::mt19937 random(5);
    int dense = 0;
    for (int round = 0; round < 2000; ++round) {
        index_vector extents;
        index_vector strides;
        for (auto rank = oracle::pick(random, 1, 3); rank > 0; --rank) {
            extents.push_back(oracle::pick(random, 1, 3));
            strides.push_back(oracle::pick(random, -2, 6));
        }
        std::set<std::int64_t> offsets;
        oracle::for_each_index(
            extents, [&](const index_vector& i) { offsets.insert(oracle::dot(i, strides)); });
        const auto n = extents.product();
        const bool expected = static_cast<std::int64_t>(offsets.size()) == n &&
                              *offsets.begin() == 0 && *offsets.rbegin() == n - 1;
        dense += expected;
        BOOST_TEST_REQUIRE(is_dense(view_of(dtype::u8, extents, strides)) == expected,
                           to_string(extents) << to_string(strides));
    }
    BOOST_TEST(dense > 100);
}

BOOST_AUTO_TEST_CASE(copies_agree_with_the_oracle) {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        const auto type = static_cast<dtype>(round % dtype_count);
        index_vector extents;
        for (auto rank = oracle::pick(random, 0, 4); rank > 0; --rank)
            extents.push_back(oracle::pick(random, round % 10 == 0 ? 0 : 1, 6));
        scattered source(random, type, extents, true);
        scattered target(random, type, extents, false);
        const const_tensor_view from(type, extents, source.strides, source.at);
        const tensor_view to(type, extents, target.strides, target.at);
        std::vector<std::byte> expected = target.memory;
        oracle::for_each_index(extents, [&](const index_vector& i) {
            std::byte* base = expected.data() + (element(to, i) - target.memory.data());
            std::copy_n(element(from, i), size_of(type), base);
        });
        copy_elements(from, to);
        BOOST_TEST_REQUIRE((target.memory == expected),
                           name_of(type)
                               << " " << to_string(extents) << " from strides "
                               << to_string(source.strides) << " to " << to_string(target.strides));
    }
}

BOOST_AUTO_TEST_CASE(transposes_of_any_element_cross_the_edges_of_tiles) {
    std::mt19937 random(7);
    for (auto const type : {dtype::u8, dtype::bf16, dtype::i32, dtype::i64, dtype::complex128})
        for (auto const& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{77, 131},
                                            {64, 32},
                                            {3, 65},
                                            {130, 2},
                                            {17, 1}}) {
            auto const size = size_of(type);
            auto const n = static_cast<std::size_t>(rows * columns) * size;
            // Neither begins where vectors are aligned.
            std::vector<std::byte> from(n + 1), to(n + 2);
            for (auto& b : from) b = static_cast<std::byte>(random());
            to.front() = to.back() = std::byte{0x5a};
            copy_elements({type, index_vector{columns, rows}, index_vector{1, columns}, &from[1]},
                          {type, index_vector{columns, rows}, &to[1]});
            bool same = to.front() == std::byte{0x5a} && to.back() == std::byte{0x5a};
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < columns; ++c)
                    same =
                        same &&
                        std::equal(&from[1] + static_cast<std::size_t>(r * columns + c) * size,
                                   &from[1] + static_cast<std::size_t>(r * columns + c + 1) * size,
                                   &to[1] + static_cast<std::size_t>(c * rows + r) * size);
            BOOST_TEST(same, name_of(type) << " " << rows << " x " << columns);
        }
}

/// Such rows are written past the caches, whole lines at a time; so are parts of as much.
BOOST_AUTO_TEST_CASE(rows_far_apart_are_written_up_to_their_ends) {
    std::mt19937 random(11);
    constexpr std::int64_t rows = 67, columns = 301, most = std::int64_t{1} << 20;
    for (auto const& [transposed, gap] : {std::pair<bool, std::int64_t>{false, most},
                                          {true, most},
                                          {false, 3},
                                          {true, 3},
                                          {false, 0}})
        for (auto const type :
             {dtype::u8, dtype::bf16, dtype::i32, dtype::i64, dtype::complex128}) {
            auto const size = size_of(type);
            auto const pitch =
                gap == most ? most / static_cast<std::int64_t>(size) / 64 + 3 : columns + gap;
            std::vector<std::byte> from(rows * columns * size + 1);
            for (auto& b : from) b = static_cast<std::byte>(random());
            std::vector<std::byte> to(static_cast<std::size_t>(rows * pitch) * size + 3,
                                      std::byte{90});
            auto want = to;
            auto const strides = transposed ? index_vector{1, rows} : index_vector{columns, 1};
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < columns; ++c) {
                    auto const at = static_cast<std::size_t>(r * strides[0] + c * strides[1]);
                    std::copy_n(&from[1 + at * size], size,
                                &want[3 + static_cast<std::size_t>(r * pitch + c) * size]);
                }
            index_vector const shape{rows, columns};
            detail::copy_part({type, shape, strides, &from[1]},
                              {type, shape, index_vector{pitch, 1}, &to[3]},
                              gap == most ? 0 : static_cast<std::uint64_t>(most));
            BOOST_TEST((to == want), name_of(type)
                                         << (transposed ? ", transposed" : "") << ", gap " << gap);
        }
}

BOOST_AUTO_TEST_CASE(empty_copies_touch_no_memory) {
    copy_elements({dtype::f64, index_vector{3, 0}, nullptr},
                  {dtype::f64, index_vector{3, 0}, nullptr});
}

BOOST_AUTO_TEST_CASE(copies_refuse_what_they_cannot_do) {
    std::vector<float> a(4);
    std::vector<float> b(4);
    const tensor_view to(dtype::f32, index_vector{2, 2}, b.data());
    const auto copy = [&](const_tensor_view from, tensor_view target) {
        return [=] { copy_elements(from, target); };
    };
    const auto is = [](errc c) { return [c](const error& e) { return has_code(e, c); }; };
    const auto found = [](const std::string& what) {
        return [what](const error& e) {
            return has_code(e, errc::invalid_argument) && e.context().found == what;
        };
    };
    const const_tensor_view good(dtype::f32, index_vector{2, 2}, a.data());
    BOOST_CHECK_EXCEPTION(copy({dtype::i32, index_vector{2, 2}, a.data()}, to)(), error,
                          is(errc::dtype_mismatch));
    BOOST_CHECK_EXCEPTION(copy({dtype::f32, index_vector{4}, a.data()}, to)(), error,
                          is(errc::shape_mismatch));
    BOOST_CHECK_EXCEPTION(
        copy({dtype::f32, index_vector{2, 2}, a.data(), device_id{memory_kind::cuda, 0}}, to)(),
        error, is(errc::invalid_argument));
    device_id const own{own_memory_kind(3), 1};
    BOOST_CHECK_EXCEPTION(copy({dtype::f32, index_vector{2, 2}, a.data(), own}, to)(), error,
                          is(errc::invalid_argument));
    BOOST_CHECK_EXCEPTION(copy(good, {dtype::f32, index_vector{2, 2}, b.data(), own})(), error,
                          is(errc::invalid_argument));
    BOOST_CHECK_EXCEPTION(
        copy(good, {dtype::f32, index_vector{2, 2}, index_vector{0, 1}, b.data()})(), error,
        found("shape [2, 2] with strides [0, 1]"));
    BOOST_CHECK_EXCEPTION(copy(good, {dtype::f32, {2, 2}, {1}, b.data()})(), error,
                          found("[2, 1] and [1] for shape [2, 2]"));
    BOOST_TEST((b == std::vector<float>(4)));
}

BOOST_AUTO_TEST_CASE(a_subview_shows_the_elements_of_its_box) {
    std::vector<std::int16_t> memory(60);
    std::iota(memory.begin(), memory.end(), std::int16_t{0});
    const const_tensor_view v(dtype::i16, {3, 4, 5}, {5, 15, 1}, memory.data());
    const box part(index_vector{1, 2, 0}, index_vector{2, 1, 3});
    const const_tensor_view s = subview(v, part);
    BOOST_TEST((s.shape == part.shape));
    oracle::for_each_index(part.shape, [&](const index_vector& i) {
        BOOST_TEST(element(s, i) == element(v, oracle::plus(i, part.offsets)));
    });
    const auto bad = [](const error& e) { return has_code(e, errc::invalid_argument); };
    BOOST_CHECK_EXCEPTION(subview(v, box(index_vector{0, 0, 3}, index_vector{1, 1, 3})), error,
                          bad);
    BOOST_CHECK_EXCEPTION(subview(v, box(index_vector{-1, 0, 0}, index_vector{1, 1, 1})), error,
                          bad);
    BOOST_CHECK_EXCEPTION(subview(v, box({0, 0, 0}, {1, -1, 1})), error, bad);
    BOOST_CHECK_EXCEPTION(subview(v, box(index_vector{0, 0}, index_vector{1, 1})), error, bad);
    BOOST_CHECK_EXCEPTION(subview(v, box({INT64_MAX, 0, 0}, {INT64_MAX, 1, 1})), error, bad);
}

BOOST_AUTO_TEST_CASE(devices_have_names) {
    BOOST_TEST(to_string(device_id{}) == "host");
    BOOST_TEST(to_string(device_id{memory_kind::pinned, 0}) == "pinned");
    BOOST_TEST(to_string(device_id{memory_kind::cuda, 2}) == "cuda:2");
    BOOST_TEST(to_string(device_id{own_memory_kind(3), 1}) == "kind 131:1");
    BOOST_TEST((is_host(memory_kind::host) && is_host(memory_kind::pinned)));
    BOOST_TEST((!is_host(memory_kind::cuda) && !is_host(own_memory_kind(0))));
}

BOOST_AUTO_TEST_CASE(an_empty_subview_of_nothing_is_nothing) {
    const tensor_view v(dtype::f32, index_vector{0, 6}, nullptr);
    BOOST_TEST(subview(v, box(index_vector{0, 2}, index_vector{0, 4})).data == nullptr);
}

BOOST_AUTO_TEST_CASE(a_subview_keeps_device_and_gradient) {
    float x[4] = {};
    tensor_view v(dtype::f32, index_vector{4}, x, device_id{memory_kind::cuda, 3});
    v.requires_grad = true;
    const tensor_view s = subview(v, box(index_vector{1}, index_vector{2}));
    BOOST_TEST((s.device == v.device));
    BOOST_TEST(s.requires_grad);
}

BOOST_AUTO_TEST_CASE(elements_that_share_a_place_are_found) {
    using cairn::detail::elements_overlap;
    for (auto const& [shape, strides] :
         std::vector<std::pair<index_vector, index_vector>>{{{3}, {0}},
                                                            {{2, 3}, {0, 1}},
                                                            {{2, 3}, {3, 0}},
                                                            {{3, 3}, {1, 1}},
                                                            {{4, 3}, {1, 2}},
                                                            {{3, 3}, {-1, 1}},
                                                            {{2, 5, 3}, {100, 2, 4}},
                                                            {{2}, {0}}})
        BOOST_TEST(elements_overlap(shape, strides), to_string(shape) + to_string(strides));
    for (auto const& [shape, strides] :
         std::vector<std::pair<index_vector, index_vector>>{{{}, {}},
                                                            {{3}, {1}},
                                                            {{2, 3}, {3, 1}},
                                                            {{2, 3}, {1, 2}},
                                                            {{1, 3}, {0, 1}},
                                                            {{0, 3}, {0, 0}},
                                                            {{3}, {-2}},
                                                            {{2, 3}, {3, 2}},
                                                            {{2, 3, 4}, {1, 2, 6}},
                                                            {{2}, {INT64_MIN}}})
        BOOST_TEST(!elements_overlap(shape, strides), to_string(shape) + to_string(strides));
}

BOOST_AUTO_TEST_CASE(a_view_spans_the_addresses_of_its_elements) {
    std::vector<float> memory(12);
    auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
    auto const range = [&](cairn::index_vector shape, cairn::index_vector strides, int first) {
        auto const [from, to] = cairn::detail::address_range(
            {cairn::dtype::float32, std::move(shape), std::move(strides), memory.data() + first});
        return std::pair((from - begin) / 4, (to - begin) / 4);
    };
    using two = std::pair<std::uintptr_t, std::uintptr_t>;
    BOOST_TEST((range({3, 4}, {4, 1}, 0) == two(0, 12)));
    BOOST_TEST((range({2, 3}, {1, 4}, 2) == two(2, 12)));
    BOOST_TEST((range({3}, {-2}, 5) == two(1, 6)));
    BOOST_TEST((range({}, {}, 7) == two(7, 8)));
    auto const [from, to] =
        cairn::detail::address_range({cairn::dtype::float32, {0}, memory.data()});
    BOOST_TEST(from == to);
}

BOOST_AUTO_TEST_CASE(a_tensor_has_a_shape_that_is_possible) {
    auto const is_wrong = [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::invalid_argument) &&
               e.context().found == "[4294967296, 4294967296]";
    };
    BOOST_CHECK_EXCEPTION(
        cairn::host_tensor(cairn::dtype::uint8, {std::int64_t{1} << 32, std::int64_t{1} << 32}),
        cairn::error, is_wrong);
}

BOOST_AUTO_TEST_SUITE_END()
