// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/arena.hpp>

#include "archetype/memory_space.hpp"

#include <cairn/memory/page_faults.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
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
using archetype::memory_space;

constexpr std::size_t kib = 1024, mib = 1024 * kib;
constexpr device_id device = memory_space::device;

auto is(errc c) {
    return [c](const error& e) { return e.code() == c; };
}
arena_options budget_of(std::uint64_t bytes) {
    return arena_options{.budget = bytes};
}

/// Whether pages of this process lie there.
bool is_mapped(const std::byte* at, std::size_t bytes) {
    std::vector<unsigned char> pages(bytes / 4096);
    return ::mincore(const_cast<std::byte*>(at), bytes, pages.data()) == 0;
}

/// Pins as it is told, and notes what it is given.
struct pinner : memory_space {
    struct log {
        std::vector<std::pair<const std::byte*, std::size_t>> pinned{};
        int calls = 0;
        int fail_at = 0;  ///< The call that fails, from 1 …
        int how = 0;      ///< … with which type.
    };
    explicit pinner(log& l) : log_(std::addressof(l)) {}
    void pin(std::span<std::byte> b, device_id d) {
        BOOST_TEST((d == device));
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(b.data()) % 4096 == 0u);
        if (++log_->calls == log_->fail_at) {
            if (log_->how == 0) throw error(errc::device_failed, {.found = "no more"});
            if (log_->how == 1) throw std::runtime_error("no more");
            if (log_->how == 2) throw std::runtime_error("");
            throw 42;
        }
        log_->pinned.emplace_back(b.data(), b.size());
    }
    void unpin(std::span<std::byte> b, device_id) noexcept {
        auto const at = std::find(log_->pinned.begin(), log_->pinned.end(),
                                  std::pair<const std::byte*, std::size_t>(b.data(), b.size()));
        BOOST_TEST((at != log_->pinned.end()));
        BOOST_TEST(is_mapped(b.data(), b.size()));
        log_->pinned.erase(at);
    }
    log* log_;
};
/// Another type, with the same behaviour.
struct other_pinner : pinner {
    using pinner::pinner;
};

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_are_aligned_and_apart) {
    arena a;
    std::vector<arena_block> blocks;
    for (std::size_t n : {1u, 4095u, 4096u, 4097u, 0u, 100'000u}) {
        blocks.push_back(*a.try_allocate(n));
        auto const b = blocks.back().bytes();
        BOOST_TEST(b.size() == n);
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(b.data()) % arena_alignment == 0u);
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

BOOST_AUTO_TEST_CASE(memory_is_touched_once) {
    arena a;
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
        std::vector<arena_block> blocks;
        for (int i = 0; i < 40; ++i) {
            blocks.push_back(*a.try_allocate(mib));
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

BOOST_AUTO_TEST_CASE(need_is_said_before_it_is_taken) {
    pinner::log log;
    for (std::uint64_t const budget : {arena_options::no_limit, std::uint64_t{7 * mib + 5000}}) {
        for (std::uint64_t const bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{mib},
                                          std::uint64_t{5 * mib + 1}, std::uint64_t{100 * mib}}) {
            arena a(budget_of(budget));
            for (int pins = 0; pins < 2; ++pins) {
                auto const need = a.need(bytes);
                auto const before = a.stats();
                a.reserve(bytes);
                auto const after = a.stats();
                BOOST_TEST(after.bytes_mapped - before.bytes_mapped == need.bytes_to_map);
                BOOST_TEST(after.bytes_pinned - before.bytes_pinned == need.bytes_to_pin);
                BOOST_TEST(after.bytes_mapped <= budget);
                BOOST_TEST(after.bytes_mapped >= std::min(bytes, budget / 4096 * 4096));
                a.release_unused();
                a.pin_for(any_memory_space::own(pinner(log)), device);
            }
        }
    }
    BOOST_TEST(log.pinned.empty());
}

BOOST_AUTO_TEST_CASE(the_budget_is_a_bound) {
    arena a(budget_of(10 * 4096 + 100));
    BOOST_CHECK_EXCEPTION((void)a.try_allocate(10 * 4096 + 1), error, [&](const error& e) {
        return is(errc::invalid_argument)(e) &&
               std::string(e.what()).find("at most 40960 bytes") != std::string::npos &&
               std::string(e.what()).find("40961 bytes") != std::string::npos;
    });
    BOOST_CHECK_THROW((void)a.try_allocate(static_cast<std::size_t>(-1)), error);
    auto whole = a.try_allocate(10 * 4096);
    BOOST_TEST_REQUIRE(whole.has_value());
    BOOST_TEST(!a.try_allocate(1).has_value());
    whole.reset();
    BOOST_TEST(a.try_allocate(1).has_value());
    BOOST_TEST(a.stats().peak_mapped == 10u * 4096);

    arena none(budget_of(0));
    BOOST_CHECK_THROW((void)none.try_allocate(1), error);
    BOOST_TEST(none.try_allocate(0)->bytes().empty());
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
        arena a(o);
        if (seed % 3 == 0) a.reserve(pick(1, budget));
        std::vector<std::pair<arena_block, std::byte>> blocks;
        for (int step = 0; step < 300; ++step) {
            auto const n = pick(1, step % 10 == 0 ? budget : std::max<std::size_t>(budget / 8, 1));
            for (;;) {
                auto b = a.try_allocate(n);
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
        BOOST_TEST(a.try_allocate(budget).has_value());
    }
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_blocks) {
    arena a;
    std::mt19937 random(1);
    std::vector<arena_block> blocks;
    for (int i = 0; i < 100'000; ++i) blocks.push_back(*a.try_allocate(1 + random() % 4096));
    BOOST_TEST(a.stats().bytes_in_use == std::uint64_t{100'000} * 4096);
    std::shuffle(blocks.begin(), blocks.end(), random);
    blocks.resize(50'000);
    for (int i = 0; i < 50'000; ++i) blocks.push_back(*a.try_allocate(4096));
    auto const mapped = a.stats().bytes_mapped;
    BOOST_TEST(mapped <= std::uint64_t{100'000} * 4096 + 64 * mib);
    blocks.clear();
    a.release_unused();
    BOOST_TEST((a.stats().bytes_mapped == 0u && a.stats().slabs == 0u));
    BOOST_TEST(a.stats().peak_mapped == mapped);
}

BOOST_AUTO_TEST_CASE(memory_is_kept_or_returned) {
    for (bool const persist : {true, false}) {
        arena a(arena_options{.persist = persist});
        a.reserve(mib);
        auto block = a.try_allocate(100);
        auto const at = block->bytes().data();
        a.operation_ended();
        BOOST_TEST(is_mapped(at, mib));  // in use
        block.reset();
        a.operation_ended();
        BOOST_TEST(is_mapped(at, mib) == persist);
        BOOST_TEST((a.stats().bytes_mapped != 0u) == persist);
        BOOST_TEST(a.try_allocate(100).has_value());
    }
}

BOOST_AUTO_TEST_CASE(blocks_outlive_their_arena) {
    std::optional<arena> a(std::in_place);
    auto block = *a->try_allocate(5000);
    auto const at = block.bytes().data();
    a.reset();
    std::memset(block.bytes().data(), 1, 5000);
    BOOST_TEST(is_mapped(at, 4096));
    arena_block moved(std::move(block));
    BOOST_TEST((block.bytes().empty() && moved.bytes().size() == 5000u));
    moved = arena_block();
    BOOST_TEST(!is_mapped(at, 4096));
}

BOOST_AUTO_TEST_CASE(abandoned_blocks_are_never_used_again) {
    pinner::log log;
    auto const before = pinned_bytes_in_process();
    std::byte* at = nullptr;
    {
        arena a(budget_of(4 * 4096));
        a.pin_for(any_memory_space::own(pinner(log)), device);
        auto block = *a.try_allocate(4096 + 1);
        at = block.bytes().data();
        block.abandon();
        BOOST_TEST(block.bytes().empty());
        block.abandon();
        a.release_unused();
        auto const s = a.stats();
        BOOST_TEST((s.bytes_abandoned == 2u * 4096 && s.bytes_in_use == 2u * 4096));
        BOOST_TEST(!a.try_allocate(3 * 4096).has_value());
        auto const rest = a.try_allocate(2 * 4096);
        BOOST_TEST_REQUIRE(rest.has_value());
        auto* const other = rest->bytes().data();
        BOOST_TEST((other >= at + 2 * 4096 || other + 2 * 4096 <= at));
    }
    // A copy that comes late finds the memory there, and pinned.
    BOOST_TEST(is_mapped(at, 2 * 4096));
    BOOST_TEST(log.pinned.size() == 1u);
    BOOST_TEST(pinned_bytes_in_process() == before + 4 * 4096);
}

BOOST_AUTO_TEST_CASE(pinned_bytes_are_counted_for_the_process) {
    auto const before = pinned_bytes_in_process();
    pinner::log log;
    {
        arena a, b(arena_options{.pinned_limit = before + 5 * mib});
        auto const space = any_memory_space::own(pinner(log));
        a.reserve(2 * mib);
        a.pin_for(space, device);
        a.pin_for(space, device);                               // once
        a.pin_for(any_memory_space::own(pinner(log)), device);  // once for a type
        a.pin_for(any_memory_space::own(other_pinner(log)), device);
        BOOST_TEST(log.calls == 2);
        BOOST_TEST(a.stats().bytes_pinned == 2 * mib);
        BOOST_TEST(pinned_bytes_in_process() == before + 2 * mib);
        b.pin_for(space, device);
        b.reserve(2 * mib);
        BOOST_TEST(b.stats().bytes_pinned == 2 * mib);
        b.reserve(4 * mib);
        BOOST_TEST(b.stats().bytes_mapped == 4 * mib);
        BOOST_TEST(b.stats().bytes_pinned == 2 * mib);
        BOOST_TEST(b.stats().pin_failure.find("would exceed the limit") != std::string::npos);
        BOOST_TEST(pinned_bytes_in_process() == before + 4 * mib);
        BOOST_TEST(a.try_allocate(100)->pinned());
        a.release_unused();
        BOOST_TEST(a.stats().bytes_pinned == 0u);
        BOOST_TEST(pinned_bytes_in_process() == before + 2 * mib);
    }
    BOOST_TEST(pinned_bytes_in_process() == before);
    BOOST_TEST(log.pinned.empty());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_pinned_stays_pageable) {
    const char* const text[] = {"no more", "no more", "without a text", "unknown type"};
    for (int how = 0; how < 4; ++how)
        for (int fail_at = 1; fail_at <= 4; ++fail_at) {
            auto const before = pinned_bytes_in_process();
            pinner::log log;
            log.fail_at = fail_at;
            log.how = how;
            {
                arena a;
                a.reserve(2 * mib);                                           // pinned by
                a.pin_for(any_memory_space::own(pinner(log)), device);        // call 1 …
                a.reserve(4 * mib);                                           // … and 2,
                a.pin_for(any_memory_space::own(other_pinner(log)), device);  // 3 and 4
                auto const s = a.stats();
                BOOST_TEST(s.bytes_mapped == 4 * mib);
                BOOST_TEST(s.bytes_pinned == 4 * mib);  // each slab by one of them at least
                BOOST_TEST(s.pin_failure.find(text[how]) != std::string::npos, s.pin_failure);
                auto const one = *a.try_allocate(2 * mib), two = *a.try_allocate(2 * mib);
                BOOST_TEST(one.pinned() != two.pinned());  // for both spaces, or not
                BOOST_TEST(log.pinned.size() == 3u);
            }
            BOOST_TEST(log.pinned.empty());
            BOOST_TEST(pinned_bytes_in_process() == before);
        }
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_had) {
    arena a;
    a.reserve(2 * mib);
    auto const refused = [](const error& e) {
        return e.code() == error_code(ENOMEM, boost::system::system_category()) &&
               std::string(e.what()).find("bytes of staging memory") != std::string::npos;
    };
    // No limit is needed for what no machine has.
    BOOST_CHECK_EXCEPTION(a.reserve(std::uint64_t{1} << 60), error, refused);
    BOOST_CHECK_EXCEPTION(a.reserve(arena_options::no_limit), error, refused);
    BOOST_CHECK_EXCEPTION((void)a.try_allocate(std::size_t{1} << 60), error, refused);
    auto const s = a.stats();
    BOOST_TEST((s.bytes_mapped == 2 * mib && s.slabs == 1u && s.bytes_in_use == 0u));
    auto const b = a.try_allocate(1000);
    BOOST_TEST_REQUIRE(b.has_value());
    std::memset(b->bytes().data(), 1, 1000);
}

BOOST_AUTO_TEST_CASE(threads_allocate_and_give_back) {
    arena a(budget_of(64 * 4096));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            std::vector<arena_block> mine;
            for (int i = 0; i < 500; ++i) {
                if (auto b = a.try_allocate(1 + random() % (8 * 4096))) {
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

BOOST_AUTO_TEST_CASE(a_child_process_gets_none_of_it) {
    pinner::log log;
    auto a = std::make_unique<arena>();
    a->pin_for(any_memory_space::own(pinner(log)), device);
    auto block = std::make_unique<arena_block>(*a->try_allocate(10'000));
    auto* const at = block->bytes().data();
    std::memset(at, 7, 10'000);
    // Somebody holds the locks at the moment of the fork: a child that locks never ends.
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            (void)a->try_allocate(5000);
            a->reserve(4 * mib);
        }
    });
    for (int round = 0; round < 20; ++round) {
        auto const child = ::fork();
        if (child == 0) {
            auto const refused = [&](auto f) {
                try {
                    f();
                } catch (const error& e) {
                    return e.code() == errc::invalid_argument;
                }
                return false;
            };
            int wrong = 0;
            wrong += is_mapped(at, 8192) ? 1 : 0;
            // Something else lies where the memory was; it is not unmapped.
            auto* const mine = ::mmap(at, 8192, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            wrong += mine != at ? 2 : 0;
            wrong += refused([&] { (void)a->try_allocate(1); }) ? 0 : 4;
            wrong += refused([&] { a->reserve(1); }) ? 0 : 8;
            wrong += refused([&] { (void)a->stats(); }) ? 0 : 16;
            a->release_unused();
            if (round % 2 == 0) block->abandon();
            block.reset();
            a.reset();
            wrong += is_mapped(at, 8192) ? 0 : 32;
            wrong += log.pinned.empty() ? 64 : 0;  // the parent's
            ::_exit(wrong);
        }
        int status = 0;
        BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
        BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0), "exit " << status);
    }
    stop = true;
    busy.join();
    BOOST_TEST(std::all_of(at, at + 10'000, [](auto b) { return b == std::byte{7}; }));
    block.reset();
    a.reset();
    BOOST_TEST(log.pinned.empty());
}

BOOST_AUTO_TEST_CASE(free_blocks_are_poisoned, *boost::unit_test::precondition(has_asan)) {
    arena a;
    auto block = *a.try_allocate(100);
    auto* const at = block.bytes().data();
    BOOST_TEST((!is_poisoned(at) && !is_poisoned(at + 99)));
    BOOST_TEST((is_poisoned(at + 104) && is_poisoned(at + 5000)));
    block = arena_block();
    BOOST_TEST(is_poisoned(at));
    auto again = *a.try_allocate(50);
    BOOST_TEST(again.bytes().data() == at);
    BOOST_TEST((!is_poisoned(at) && is_poisoned(at + 56)));
    // What is unmapped is free for anything else.
    a = arena();
    again = arena_block();
    BOOST_TEST((!is_poisoned(at) && !is_poisoned(at + mib)));
}

BOOST_AUTO_TEST_SUITE_END()
