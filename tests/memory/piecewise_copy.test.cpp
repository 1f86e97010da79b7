// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/piecewise_copy.hpp>

#include "support/error_codes.hpp"
#include "support/random_strides.hpp"

#include <cairn/memory/host.hpp>
#include <cairn/tensor/detail/stream_copy.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(piecewise)

namespace {

using namespace cairn;

/// Memory of an array with random strides, full of random bytes.
struct scattered {
    scattered(std::mt19937& random, dtype t, const index_vector& shape, bool may_repeat)
        : layout(random, shape, may_repeat) {
        auto const skew = static_cast<std::size_t>(oracle::pick(random, 0, 3));
        memory.resize(static_cast<std::size_t>(layout.elements) * size_of(t) + skew);
        for (auto& b : memory) b = static_cast<std::byte>(random());
        type = t;
        shape_ = shape;
        offset = skew + static_cast<std::size_t>(layout.first) * size_of(t);
    }
    tensor_view view() { return {type, shape_, layout.strides, memory.data() + offset}; }

    oracle::random_strides layout;
    std::vector<std::byte> memory{};
    dtype type{};
    index_vector shape_{};
    std::size_t offset = 0;
};

std::vector<std::size_t> shuffled(std::mt19937& random, std::size_t n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    return order;
}

std::vector<pitched_copy> calls_of(const const_tensor_view& from, const tensor_view& to) {
    std::vector<pitched_copy> calls;
    piecewise_copy const c(from, to, std::size_t{1} << 40);
    BOOST_TEST(c.pieces() == 1u);
    c.append(0, calls);
    return calls;
}

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_in_any_order_are_the_copy) {
    for (unsigned seed = 1; seed <= 3000; ++seed) {
        std::mt19937 random(seed);
        auto const type = static_cast<dtype>(seed % dtype_count);
        auto const shape = oracle::random_shape(random, seed % 10 == 0 ? 0 : 1, 6);
        scattered from(random, type, shape, true);
        scattered to(random, type, shape, false);
        auto const before = to.memory;
        copy_elements(from.view(), to.view());
        auto const expected = std::exchange(to.memory, before);

        auto const largest = static_cast<std::size_t>(oracle::pick(random, 1, 200));
        piecewise_copy const c(from.view(), to.view(), largest);
        std::size_t bytes = 0;
        for (auto const k : shuffled(random, c.pieces())) {
            BOOST_TEST_REQUIRE(c.bytes_of(k) <= std::max(largest, size_of(type)));
            if (k + 1 != c.pieces() && largest >= size_of(type))
                BOOST_TEST_REQUIRE(4 * c.bytes_of(k) >= largest, "seed " << seed);
            bytes += c.bytes_of(k);
            c.copy(k, seed % 2 == 0 ? store_hint::streaming : store_hint::cached);
        }
        BOOST_TEST_REQUIRE(bytes == to.view().bytes());
        BOOST_TEST_REQUIRE((to.memory == expected), "seed " << seed);

        to.memory = before;
        piecewise_copy const again(from.view(), to.view(), largest);
        host_memory::queue queue;
        for (auto const k : shuffled(random, again.pieces())) {
            std::vector<pitched_copy> calls;
            again.append(k, calls);
            std::size_t sum = 0;
            for (auto const& call : calls) {
                BOOST_TEST_REQUIRE((call.width >= 1 && call.rows >= 1));
                if (call.rows > 1)
                    BOOST_TEST_REQUIRE((call.from_pitch >= call.width &&
                                        call.to_pitch >= call.width &&
                                        std::max(call.from_pitch, call.to_pitch) <= largest_pitch));
                sum += call.bytes();
            }
            BOOST_TEST_REQUIRE(sum == again.bytes_of(k));
            queue.to_host(calls);
        }
        BOOST_TEST_REQUIRE((to.memory == expected), "seed " << seed);
    }
}

BOOST_AUTO_TEST_CASE(few_calls_make_a_copy) {
    std::vector<float> a(100'000), b(100'000);
    auto const from = [&](index_vector shape, index_vector strides) {
        return const_tensor_view(dtype::f32, shape, strides, a.data() + 50'000);
    };
    auto const dense = [&](index_vector shape) { return tensor_view(dtype::f32, shape, b.data()); };
    // Contiguous, of whatever shape.
    BOOST_TEST(calls_of(from({4, 5, 6}, {30, 6, 1}), dense({4, 5, 6})).size() == 1u);
    // Columns of a matrix, and rows of one dimension of three.
    auto const columns = calls_of(from({7, 3}, {10, 1}), dense({7, 3}));
    BOOST_REQUIRE(columns.size() == 1u);
    BOOST_TEST((columns[0] == pitched_copy{from({}, {}).data, dense({}).data, 12, 7, 40, 12}));
    BOOST_TEST(calls_of(from({4, 5, 6}, {100, 6, 1}), dense({4, 5, 6})).size() == 1u);
    // Gaps in two dimensions: as many calls as the shorter has indices.
    BOOST_TEST(calls_of(from({4, 50, 6}, {1000, 10, 1}), dense({4, 50, 6})).size() == 4u);
    BOOST_TEST(calls_of(from({50, 4, 6}, {1000, 10, 1}), dense({50, 4, 6})).size() == 4u);
    // Transposed: single elements are rows.
    BOOST_TEST(calls_of(from({30, 8}, {1, 30}), dense({30, 8})).size() == 8u);
    BOOST_TEST(calls_of(from({8, 30}, {1, 8}), dense({8, 30})).size() == 8u);
    // Backwards and repeated: no pitch can say it.
    BOOST_TEST(calls_of(from({5, 6}, {-10, 1}), dense({5, 6})).size() == 5u);
    BOOST_TEST(calls_of(from({5, 6}, {0, 1}), dense({5, 6})).size() == 5u);
    BOOST_TEST(calls_of(from({}, {}), dense({})).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_pitch_beyond_the_limit_is_made_of_rows) {
    auto* const at = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never touched
    auto const limit = static_cast<std::int64_t>(largest_pitch);
    for (std::int64_t const stride : {limit, limit + 1}) {
        const_tensor_view const from(dtype::u8, {3, 10}, {stride, 1}, at);
        tensor_view const to(dtype::u8, {3, 10}, at + (std::int64_t{1} << 45));
        BOOST_TEST(calls_of(from, to).size() == (stride == limit ? 1u : 3u));
    }
}

BOOST_AUTO_TEST_CASE(large_arrays_are_cut_at_multiples) {
    auto* const at = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never touched
    auto const mib = std::size_t{1} << 20;
    const_tensor_view const from(dtype::f32, {1000, 1000, 1000}, at);
    tensor_view const to(dtype::f32, {1000, 1000, 1000}, at + (std::int64_t{1} << 45));
    piecewise_copy const c(from, to, 4 * mib);
    BOOST_TEST(c.pieces() == (to.bytes() + 4 * mib - 1) / (4 * mib));
    std::vector<pitched_copy> calls;
    c.append(17, calls);
    BOOST_REQUIRE(calls.size() == 1u);
    BOOST_TEST((calls[0].from == from.data + 17 * 4 * mib && calls[0].width == 4 * mib));
    BOOST_TEST(piecewise_copy(from, to, 0).pieces() == 1'000'000'000u);
}

BOOST_AUTO_TEST_CASE(streamed_copies_may_have_any_alignment) {
    std::mt19937 random(3);
    std::vector<std::byte> from(300'000), to;
    for (auto& b : from) b = static_cast<std::byte>(random());
    for (int round = 0; round < 300; ++round) {
        auto const f = static_cast<std::size_t>(oracle::pick(random, 0, 130));
        auto const t = static_cast<std::size_t>(oracle::pick(random, 0, 130));
        auto const least = static_cast<std::int64_t>(detail::least_streamed);
        auto const n =
            static_cast<std::size_t>(round % 3 == 0 ? oracle::pick(random, least - 2, least + 130)
                                                    : oracle::pick(random, 1, 250'000));
        to.assign(n + 300, std::byte{0x5a});
        auto expected = to;
        std::copy_n(from.data() + f, n, expected.data() + t);
        piecewise_copy({dtype::u8, {static_cast<std::int64_t>(n)}, from.data() + f},
                       {dtype::u8, {static_cast<std::int64_t>(n)}, to.data() + t}, n)
            .copy(0);
        BOOST_TEST_REQUIRE((to == expected), f << " to " << t << ", " << n);
    }
}

BOOST_AUTO_TEST_CASE(threads_share_the_pieces) {
    std::vector<std::uint32_t> from(1'000'000), to(1'000'000);
    std::iota(from.begin(), from.end(), 7u);
    index_vector const shape{1000, 1000};
    piecewise_copy const c({dtype::u32, shape, index_vector{1, 1000}, from.data()},
                           {dtype::u32, shape, to.data()}, 65536);
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (std::size_t k = next++; k < c.pieces(); k = next++) c.copy(k);
        });
    for (auto& t : threads) t.join();
    for (std::size_t i = 0; i < 1000; ++i)
        for (std::size_t j = 0; j < 1000; ++j)
            BOOST_TEST_REQUIRE(to[i * 1000 + j] == from[j * 1000 + i]);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_copied_is_refused) {
    float a[4] = {}, b[4] = {};
    tensor_view const to(dtype::f32, index_vector{2, 2}, b);
    using support::is;
    auto const attempt = [](const const_tensor_view& from, const tensor_view& target) {
        return [=] { (void)piecewise_copy(from, target, 100); };
    };
    BOOST_CHECK_EXCEPTION(attempt({dtype::i32, index_vector{2, 2}, a}, to)(), error,
                          is(errc::dtype_mismatch));
    BOOST_CHECK_EXCEPTION(attempt({dtype::f32, index_vector{4}, a}, to)(), error,
                          is(errc::shape_mismatch));
    BOOST_CHECK_EXCEPTION(attempt({dtype::f32, index_vector{2, 2}, a},
                                  {dtype::f32, index_vector{2, 2}, index_vector{0, 1}, b})(),
                          error, is(errc::invalid_argument));
    piecewise_copy const device(
        {dtype::f32, index_vector{2, 2}, a, device_id{memory_kind::cuda, 0}}, to, 100);
    BOOST_CHECK_EXCEPTION(device.copy(0), error, is(errc::invalid_argument));
    tensor_view const nothing(dtype::f32, index_vector{0, 5}, nullptr);
    BOOST_TEST(piecewise_copy(nothing, nothing, 100).pieces() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
