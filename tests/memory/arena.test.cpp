// SPDX-License-Identifier: Apache-2.0
#include "support/error_codes.hpp"

#include <cairn/memory/arena.hpp>

#include <cairn/memory/page_faults.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" __attribute__((weak)) int __asan_address_is_poisoned(const volatile void*);

BOOST_AUTO_TEST_SUITE(arenas)

namespace {

boost::test_tools::assertion_result has_asan(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result r(__asan_address_is_poisoned != nullptr);
    if (!r) r.message() << "not compiled with AddressSanitizer";
    return r;
}
bool is_poisoned(const void* at) {
    return __asan_address_is_poisoned(at) != 0;
}

using namespace cairn;

constexpr std::size_t kib = 1024, mib = 1024 * kib;

using support::is;
arena_options budget_of(std::uint64_t bytes) {
    return arena_options{.budget = bytes, .alignment = 4096};
}

/// Whether pages of this process lie there.
bool is_mapped(const std::byte* at, std::size_t bytes) {
    std::vector<unsigned char> pages(bytes / 4096);
    return ::mincore(const_cast<std::byte*>(at), bytes, pages.data()) == 0;
}

/// Not instrumented: ThreadSanitizer's own pages would be counted with ours.
__attribute__((no_sanitize("thread"))) void touch_pages(std::byte* at, std::size_t bytes) {
    for (auto* const end = at + bytes; at < end; at += 4096) *at = std::byte{1};
}

}  // namespace

BOOST_AUTO_TEST_CASE(leases_are_aligned_and_apart) {
    staging_arena a(arena_options{.alignment = 4096});
    std::vector<arena_lease> blocks;
    for (std::size_t n : {1u, 4095u, 4096u, 4097u, 0u, 100'000u}) {
        blocks.push_back(*a.try_take(n));
        auto const b = blocks.back().bytes();
        BOOST_TEST(b.size() == n);
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(b.data()) % 4096 == 0u);
        BOOST_TEST(!blocks.back().pinned());
        std::fill(b.begin(), b.end(), static_cast<std::byte>(n));
    }
    for (auto const& b : blocks)
        BOOST_TEST(std::all_of(b.bytes().begin(), b.bytes().end(), [&](auto x) {
            return x == static_cast<std::byte>(b.bytes().size());
        }));
    BOOST_TEST(a.stats().bytes_in_use == (1u + 1 + 1 + 2 + 25) * 4096);
    blocks.clear();
    BOOST_TEST(a.stats().bytes_in_use == 0u);
    BOOST_TEST(a.stats().peak_in_use == 30u * 4096);
}

BOOST_AUTO_TEST_CASE(small_leases_waste_little) {
    staging_arena a;
    std::vector<staging_arena::lease> leases;
    for (std::size_t n = 1; n <= 1000; ++n) {
        leases.push_back(a.take(n));
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(leases.back().bytes().data()) % 64 == 0u);
        std::memset(leases.back().bytes().data(), static_cast<int>(n), n);
    }
    for (std::size_t n = 1; n <= 1000; ++n) {
        auto const b = leases[n - 1].bytes();
        BOOST_TEST((b.size() == n && b.front() == b.back() && b.back() == std::byte(n & 255)));
    }
    BOOST_TEST(a.stats().bytes_in_use <= 1000u * 500 + 1000 * 64);
    BOOST_TEST(a.bytes_held() == a.stats().bytes_mapped);
    BOOST_TEST(a.bytes_held() == 64 * mib);
    leases.clear();
    a.release_unused();
    BOOST_TEST(a.bytes_held() == 0u);
    for (std::size_t const wrong : {0u, 1u, 32u, 96u, 8192u})
        BOOST_CHECK_EXCEPTION(staging_arena(arena_options{.alignment = wrong}), error,
                              is(errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(take_says_what_is_missing) {
    staging_arena a(budget_of(4 * 4096));
    auto first = a.take(3 * 4096);
    BOOST_CHECK_EXCEPTION((void)a.take(2 * 4096), error, [](const error& e) {
        std::string const s = e.what();
        return e.code() == errc::invalid_argument && s.find("8192 bytes") != std::string::npos &&
               s.find("12288 bytes in use of a budget of 16384") != std::string::npos &&
               !e.context().remedy.empty();
    });
    first = {};
    BOOST_TEST(a.take(2 * 4096).bytes().size() == 2u * 4096);
}

/// A slab that was free when a reservation began may be leased from before it is returned.
BOOST_AUTO_TEST_CASE(the_budget_holds_while_one_thread_reserves_and_another_leases) {
    constexpr std::size_t page = 4096, budget = 8 * page;
    auto o = budget_of(budget);
    o.slab_bytes = 2 * page;
    staging_arena a(o);
    std::atomic<bool> end{false};
    std::thread other([&] {
        while (!end) (void)a.try_take(page);
    });
    for (int i = 0; i < 20'000 && a.stats().peak_mapped <= budget; ++i) {
        (void)a.reserve(budget);
        a.release_unused();
    }
    end = true;
    other.join();
    BOOST_TEST(a.stats().peak_mapped <= budget);
}

BOOST_AUTO_TEST_CASE(several_threads_touch_the_pages) {
    for (unsigned const threads : {1u, 4u}) {
        arena_options o;
        o.prefault_threads = threads;
        staging_arena a(o);
        auto const taken = a.reserve(70 * mib + 1);
        BOOST_TEST((taken.bytes_mapped == 72 * mib && taken.bytes_pinned == 0u));
        BOOST_TEST(taken.pin_failure.empty());
        BOOST_TEST(a.stats().page_faults >= 36u);
        auto const all = a.take(72 * mib);
        auto const before = page_faults_of_thread();
        touch_pages(all.bytes().data(), all.bytes().size());
        BOOST_TEST(page_faults_of_thread() - before < 15u);
    }
}

BOOST_AUTO_TEST_CASE(memory_is_touched_once) {
    staging_arena a(arena_options{.prefault_threads = 1});  // whose page faults are counted
    auto const before = page_faults_of_thread();
    a.reserve(40 * mib);
    auto const made = page_faults_of_thread() - before;
    auto const s = a.stats();
    BOOST_TEST((s.bytes_mapped == 40 * mib && s.slabs == 1u));
    BOOST_TEST((s.page_faults >= 20u && s.page_faults <= made));
    // Whatever is done with it then, no page comes in any more. Nodes of the allocator cost a few,
    // the slab would cost 20 huge pages or 10 240 small ones.
    for (int save = 0; save < 3; ++save) {
        auto const from = page_faults_of_thread();
        std::vector<arena_lease> blocks;
        for (int i = 0; i < 40; ++i) {
            blocks.push_back(*a.try_take(mib));
            std::memset(blocks.back().bytes().data(), save, mib);
        }
        auto const faults = page_faults_of_thread() - from;
        if (save > 0) BOOST_TEST(faults < 15u);  // sanitizers have pages of their own at first
    }
    BOOST_TEST(a.stats().page_faults == s.page_faults);
    BOOST_TEST(a.stats().bytes_mapped == 40 * mib);
    a.reserve(40 * mib);
    BOOST_TEST(a.stats().slabs == 1u);
}

BOOST_AUTO_TEST_CASE(the_budget_is_a_bound) {
    staging_arena a(budget_of(10 * 4096 + 100));
    BOOST_CHECK_EXCEPTION((void)a.try_take(10 * 4096 + 1), error, [&](const error& e) {
        return is(errc::invalid_argument)(e) &&
               std::string(e.what()).find("at most 40960 bytes") != std::string::npos &&
               std::string(e.what()).find("40961 bytes") != std::string::npos;
    });
    BOOST_CHECK_THROW((void)a.try_take(static_cast<std::size_t>(-1)), error);
    auto whole = a.try_take(10 * 4096);
    BOOST_TEST_REQUIRE(whole.has_value());
    BOOST_TEST(!a.try_take(1).has_value());
    whole.reset();
    BOOST_TEST(a.try_take(1).has_value());
    BOOST_TEST(a.stats().peak_mapped == 10u * 4096);

    staging_arena none(budget_of(0));
    BOOST_CHECK_THROW((void)none.try_take(1), error);
    BOOST_TEST(none.try_take(0)->bytes().empty());
    none.reserve(100);
    BOOST_TEST(none.stats().bytes_mapped == 0u);
}

// In whatever order blocks come and go: never beyond the budget, and who waits for all of his own
// blocks gets whatever the budget allows.
BOOST_AUTO_TEST_CASE(a_request_within_the_budget_succeeds_in_the_end) {
    for (unsigned seed = 1; seed <= 30; ++seed) {
        std::mt19937 random(seed);
        auto const pick = [&](std::size_t least, std::size_t most) {
            return std::uniform_int_distribution<std::size_t>(least, most)(random);
        };
        auto const budget = pick(1, 64) * 4096;
        arena_options o = budget_of(budget);
        o.slab_bytes = pick(1, 20) * 4096;
        staging_arena a(o);
        if (seed % 3 == 0) a.reserve(pick(1, budget));
        std::vector<std::pair<arena_lease, std::byte>> blocks;
        for (int step = 0; step < 300; ++step) {
            auto const n = pick(1, step % 10 == 0 ? budget : std::max<std::size_t>(budget / 8, 1));
            for (;;) {
                auto b = a.try_take(n);
                BOOST_TEST_REQUIRE(a.stats().bytes_mapped <= budget);
                if (b) {
                    auto const mark = static_cast<std::byte>(random());
                    std::memset(b->bytes().data(), static_cast<int>(mark), n);
                    blocks.emplace_back(std::move(*b), mark);
                    break;
                }
                BOOST_TEST_REQUIRE(!blocks.empty());
                auto const which = pick(0, blocks.size() - 1);
                auto const& [bytes, mark] = blocks[which];
                auto const untouched = [m = mark](auto x) { return x == m; };
                BOOST_TEST_REQUIRE(
                    std::all_of(bytes.bytes().begin(), bytes.bytes().end(), untouched));
                std::swap(blocks[which], blocks.back());
                blocks.pop_back();
            }
        }
        blocks.clear();
        BOOST_TEST(a.stats().bytes_in_use == 0u);
        BOOST_TEST(a.try_take(budget).has_value());
    }
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_leases_take_little_more_than_their_bytes) {
    staging_arena a(arena_options{.alignment = 4096});
    std::mt19937 random(1);
    std::vector<arena_lease> blocks;
    for (int i = 0; i < 100'000; ++i) blocks.push_back(*a.try_take(1 + random() % 4096));
    BOOST_TEST(a.stats().bytes_in_use == std::uint64_t{100'000} * 4096);
    std::shuffle(blocks.begin(), blocks.end(), random);
    blocks.resize(50'000);
    for (int i = 0; i < 50'000; ++i) blocks.push_back(*a.try_take(4096));
    auto const mapped = a.stats().bytes_mapped;
    BOOST_TEST(mapped <= std::uint64_t{100'000} * 4096 + 64 * mib);
    blocks.clear();
    a.release_unused();
    BOOST_TEST((a.stats().bytes_mapped == 0u && a.stats().slabs == 0u));
    BOOST_TEST(a.stats().peak_mapped == mapped);
}

BOOST_AUTO_TEST_CASE(memory_is_kept_or_returned) {
    for (bool const persist : {true, false}) {
        staging_arena a(arena_options{.persist = persist});
        a.reserve(mib);
        auto block = a.try_take(100);
        auto const at = block->bytes().data();
        a.operation_ended();
        BOOST_TEST(is_mapped(at, mib));  // in use
        block.reset();
        a.operation_ended();
        BOOST_TEST(is_mapped(at, mib) == persist);
        BOOST_TEST((a.stats().bytes_mapped != 0u) == persist);
        BOOST_TEST(a.try_take(100).has_value());
    }
}

BOOST_AUTO_TEST_CASE(leases_outlive_their_arena) {
    std::optional<staging_arena> a(std::in_place);
    auto block = *a->try_take(5000);
    auto const at = block.bytes().data();
    a.reset();
    std::memset(block.bytes().data(), 1, 5000);
    BOOST_TEST(is_mapped(at, 4096));
    arena_lease moved(std::move(block));
    BOOST_TEST((block.bytes().empty() && moved.bytes().size() == 5000u));
    moved = arena_lease();
    BOOST_TEST(!is_mapped(at, 4096));
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_had_is_an_error_that_says_what_helps) {
    staging_arena a;
    a.reserve(2 * mib);
    auto const refused = [](const error& e) {
        return e.code() == error_code(ENOMEM, boost::system::system_category()) &&
               std::string(e.what()).find("bytes of staging memory") != std::string::npos &&
               e.context().found.find("bytes free on this host") != std::string::npos &&
               e.context().remedy.find("budget") != std::string::npos;
    };
    // No limit is needed for what no machine has.
    BOOST_CHECK_EXCEPTION(a.reserve(std::uint64_t{1} << 60), error, refused);
    BOOST_CHECK_EXCEPTION(a.reserve(arena_options::no_limit), error, refused);
    BOOST_CHECK_EXCEPTION((void)a.try_take(std::size_t{1} << 60), error, refused);
    auto const s = a.stats();
    BOOST_TEST((s.bytes_mapped == 0u && s.slabs == 0u && s.bytes_in_use == 0u));
    auto const b = a.try_take(1000);
    BOOST_TEST_REQUIRE(b.has_value());
    std::memset(b->bytes().data(), 1, 1000);
}

/// A state that grows takes no more than its largest size, in one piece.
BOOST_AUTO_TEST_CASE(sizes_that_something_had_before_are_not_kept) {
    staging_arena a(arena_options{.slab_bytes = 4 * mib});
    for (std::size_t bytes = mib; bytes <= 60 * mib; bytes += mib) {
        (void)a.take(bytes);
        BOOST_TEST(a.bytes_held() <= bytes + 4 * mib);
    }
    BOOST_TEST(a.stats().peak_mapped <= 64 * mib);
    auto const before = a.stats().page_faults;
    (void)a.take(30 * mib);
    (void)a.take(60 * mib);
    BOOST_TEST(a.stats().page_faults == before);  // what fits is not mapped again
}
BOOST_AUTO_TEST_CASE(two_states_that_share_an_arena_take_what_both_need) {
    staging_arena a(arena_options{.slab_bytes = 4 * mib});
    for (std::size_t bytes = 2 * mib; bytes <= 40 * mib; bytes += 2 * mib) {
        auto const large = a.take(bytes);
        auto const small = a.take(3 * mib);
        BOOST_TEST(a.bytes_held() <= bytes + 3 * mib + 2 * 4 * mib);
    }
    auto const faults = a.stats().page_faults;
    for (int k = 0; k < 5; ++k) {
        auto const small = a.take(3 * mib);
        auto const large = a.take(40 * mib);
    }
    BOOST_TEST(a.stats().page_faults == faults);
}
BOOST_AUTO_TEST_CASE(a_lease_of_what_was_reserved_maps_nothing) {
    staging_arena a(arena_options{.slab_bytes = 4 * mib});
    (void)a.take(3 * mib);
    BOOST_TEST(a.need(10 * mib).bytes_to_map == 10 * mib);
    BOOST_TEST(a.reserve(10 * mib).bytes_mapped == 10 * mib);
    BOOST_TEST(a.need(10 * mib).bytes_to_map == 0u);
    auto const faults = a.stats().page_faults;
    auto const lease = a.take(10 * mib);
    BOOST_TEST(a.stats().page_faults == faults);
    BOOST_TEST(a.bytes_held() == 10 * mib);
    // What is in use stays.
    BOOST_TEST(a.reserve(12 * mib).bytes_mapped == 12 * mib);
    BOOST_TEST(a.bytes_held() == 22 * mib);
}

BOOST_AUTO_TEST_CASE(threads_allocate_and_give_back) {
    staging_arena a(budget_of(64 * 4096));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            std::vector<arena_lease> mine;
            for (int i = 0; i < 500; ++i) {
                if (auto b = a.try_take(1 + random() % (8 * 4096))) {
                    std::memset(b->bytes().data(), t, b->bytes().size());
                    mine.push_back(std::move(*b));
                }
                if (mine.size() > 3 || random() % 2 == 0) mine.clear();
                if (random() % 50 == 0) a.release_unused();
                if (random() % 50 == 0) (void)a.stats();
            }
        });
    for (auto& t : threads) t.join();
    BOOST_TEST(a.stats().bytes_in_use == 0u);
    BOOST_TEST(a.stats().peak_mapped <= 64u * 4096);
}

/// All together they take what the budget allows: none is refused, whoever maps the slabs.
BOOST_AUTO_TEST_CASE(threads_take_the_whole_budget_at_once) {
    constexpr std::size_t takers = 8, each = 8, bytes = 4096;
    std::atomic<int> refused{0};
    for (int round = 0; round < 300; ++round) {
        staging_arena a(arena_options{.budget = takers * each * bytes, .slab_bytes = bytes});
        std::atomic<std::size_t> here{0};
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < takers; ++t)
            threads.emplace_back([&] {
                std::vector<arena_lease> mine;
                ++here;
                while (here < takers) std::this_thread::yield();
                for (std::size_t i = 0; i < each; ++i) {
                    try {
                        mine.push_back(a.take(bytes));
                    } catch (const error&) {
                        ++refused;
                    }
                }
            });
        for (auto& t : threads) t.join();
    }
    BOOST_TEST(refused == 0);
}

BOOST_AUTO_TEST_CASE(free_leases_are_poisoned, *boost::unit_test::precondition(has_asan)) {
    staging_arena a;
    auto block = *a.try_take(100);
    auto* const at = block.bytes().data();
    BOOST_TEST((!is_poisoned(at) && !is_poisoned(at + 99)));
    BOOST_TEST((is_poisoned(at + 104) && is_poisoned(at + 5000)));
    block = arena_lease();
    BOOST_TEST(is_poisoned(at));
    auto again = *a.try_take(50);
    BOOST_TEST(again.bytes().data() == at);
    BOOST_TEST((!is_poisoned(at) && is_poisoned(at + 56)));
    // What is unmapped is free for anything else.
    a = staging_arena();
    again = arena_lease();
    BOOST_TEST((!is_poisoned(at) && !is_poisoned(at + mib)));
}

BOOST_AUTO_TEST_SUITE_END()
