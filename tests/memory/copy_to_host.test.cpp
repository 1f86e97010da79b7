// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/copy_to_host.hpp>

#include "support/random_strides.hpp"

#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(host_copies)

namespace {

using namespace cairn;

/// Memory of an array with random strides, full of random bytes.
struct array {
    array(std::mt19937& random, dtype t, const index_vector& s, bool may_repeat)
        : layout(random, s, may_repeat), shape(s), type(t),
          memory(static_cast<std::size_t>(layout.elements) * size_of(t)) {
        for (auto& b : memory) b = static_cast<std::byte>(random());
    }
    tensor_view view() {
        return {type, shape, layout.strides,
                memory.data() + static_cast<std::size_t>(layout.first) * size_of(type)};
    }
    oracle::random_strides layout;
    index_vector shape;
    dtype type;
    std::vector<std::byte> memory;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_element_is_copied_once) {
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        std::vector<array> from, to;
        for (auto n = oracle::pick(random, 0, 8); n > 0; --n) {
            auto const type = static_cast<dtype>(oracle::pick(random, 0, dtype_count - 1));
            auto const shape = oracle::random_shape(random, 0, 6);
            from.emplace_back(random, type, shape, true);
            to.emplace_back(random, type, shape, false);
        }
        std::vector<std::vector<std::byte>> expected;
        for (std::size_t i = 0; i < to.size(); ++i) {
            auto const before = to[i].memory;
            copy_elements(from[i].view(), to[i].view());
            expected.push_back(std::exchange(to[i].memory, before));
        }
        std::vector<host_copy> copies;
        for (std::size_t i = 0; i < to.size(); ++i)
            copies.push_back({from[i].view(), to[i].view()});
        host_copy_options o;
        o.threads = seed % 5;
        o.stores = seed % 2 == 0 ? store_hint::streaming : store_hint::cached;
        o.piece_bytes = static_cast<std::size_t>(oracle::pick(random, 1, 2000));
        copy_to_host(copies, o);
        for (std::size_t i = 0; i < to.size(); ++i)
            BOOST_TEST_REQUIRE((to[i].memory == expected[i]), "seed " << seed);
    }
}

BOOST_AUTO_TEST_CASE(large_arrays_are_copied_by_any_number_of_threads) {
    index_vector const shape{1500, 1000};
    std::vector<std::uint32_t> from(1'500'000), to(1'500'000);
    std::iota(from.begin(), from.end(), 5u);
    for (unsigned threads = 1; threads <= 3; ++threads) {
        std::fill(to.begin(), to.end(), 0u);
        host_copy_options o;
        o.threads = threads;
        o.piece_bytes = 100'000;
        copy_to_host({dtype::u32, shape, from.data()}, {dtype::u32, shape, to.data()}, o);
        BOOST_TEST((to == from));
    }
}

BOOST_AUTO_TEST_CASE(only_those_threads_run_that_were_asked_for) {
    for (unsigned const asked : {0u, 1u, 3u}) {
        std::mutex m;
        std::set<std::thread::id> seen;
        auto const all = std::max(asked, 1u);
        auto const by = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        std::atomic<int> unmasked{0};
        auto const me = std::this_thread::get_id();
        detail::in_parallel(asked, [&] {
            sigset_t mask;
            ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            bool const blocked = ::sigismember(&mask, SIGUSR1) == 1;
            if (blocked != (std::this_thread::get_id() != me)) ++unmasked;
            for (bool done = false; !done && std::chrono::steady_clock::now() < by;) {
                std::lock_guard const lock(m);
                seen.insert(std::this_thread::get_id());
                done = seen.size() == all;
            }
        });
        BOOST_TEST((seen.size() == all && seen.count(me) == 1u));
        BOOST_TEST(unmasked == 0);
        sigset_t mask;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        BOOST_TEST(::sigismember(&mask, SIGUSR1) == 0);
    }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_copied_changes_nothing) {
    std::vector<float> a(4, 1), b(4, 2);
    const_tensor_view const from(dtype::f32, index_vector{4}, a.data());
    tensor_view const to(dtype::f32, index_vector{4}, b.data());
    auto const refused = [&](const host_copy& c, errc code) {
        host_copy const two[] = {{from, to}, c};
        try {
            copy_to_host(two);
        } catch (const error& e) {
            BOOST_TEST((b == std::vector<float>(4, 2)));
            BOOST_TEST((e.code() == code), e.what());
            return std::string(e.what());
        }
        BOOST_ERROR("copied");
        return std::string();
    };
    std::vector<float> c(4);
    refused({from, {dtype::i32, index_vector{4}, c.data()}}, errc::dtype_mismatch);
    refused({from, {dtype::f32, index_vector{2}, c.data()}}, errc::shape_mismatch);
    refused({from, {dtype::f32, index_vector{4}, index_vector{0}, c.data()}},
            errc::invalid_argument);
    auto const gpu = refused({{dtype::f32, index_vector{4}, a.data(), {memory_kind::cuda, 1}}, to},
                             errc::unsupported);
    BOOST_TEST(gpu.find("cuda:1") != std::string::npos, gpu);
    BOOST_TEST(gpu.find("#include <cairn/memory/cuda.hpp>") != std::string::npos, gpu);
    auto const own =
        refused({from, {dtype::f32, index_vector{4}, c.data(), {own_memory_kind(1), 0}}},
                errc::unsupported);
    BOOST_TEST(own.find("cairn::MemorySpace") != std::string::npos, own);
    copy_to_host(from, to);
    BOOST_TEST((b == a));
    copy_to_host({});
}

BOOST_AUTO_TEST_SUITE_END()
