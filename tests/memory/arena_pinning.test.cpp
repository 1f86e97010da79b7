// SPDX-License-Identifier: Apache-2.0
// What an arena takes from the system and from devices: pinning, accounting, fork().
#include <cairn/memory/arena.hpp>

#include "archetype/memory_space.hpp"

#include <cairn/memory/pinned_bytes.hpp>

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
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(arenas_and_devices)

namespace {

using namespace cairn;
using archetype::memory_space;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr device_id device = memory_space::device;

arena_options budget_of(std::uint64_t bytes) {
    return arena_options{.budget = bytes, .alignment = 4096};
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

BOOST_AUTO_TEST_CASE(the_need_of_an_arena_is_said_before_it_is_taken) {
    pinner::log log;
    for (std::uint64_t const budget : {arena_options::no_limit, std::uint64_t{7 * mib + 5000}}) {
        for (std::uint64_t const bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{mib},
                                          std::uint64_t{5 * mib + 1}, std::uint64_t{100 * mib}}) {
            staging_arena a(budget_of(budget));
            for (int pins = 0; pins < 2; ++pins) {
                auto const need = a.need(bytes);
                auto const before = a.stats();
                auto const taken = a.reserve(bytes);
                auto const after = a.stats();
                BOOST_TEST(taken.bytes_mapped == need.bytes_to_map);
                BOOST_TEST(taken.bytes_pinned == need.bytes_to_pin);
                BOOST_TEST(taken.pin_failure.empty());
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

BOOST_AUTO_TEST_CASE(abandoned_leases_are_never_used_again) {
    pinner::log log;
    auto const before = pinned_bytes_in_process();
    std::byte* at = nullptr;
    {
        staging_arena a(budget_of(4 * 4096));
        a.pin_for(any_memory_space::own(pinner(log)), device);
        auto block = *a.try_take(4096 + 1);
        at = block.bytes().data();
        block.abandon();
        BOOST_TEST(block.bytes().empty());
        block.abandon();
        a.release_unused();
        auto const s = a.stats();
        BOOST_TEST((s.bytes_abandoned == 2u * 4096 && s.bytes_in_use == 2u * 4096));
        BOOST_TEST(!a.try_take(3 * 4096).has_value());
        auto const rest = a.try_take(2 * 4096);
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
        staging_arena a, b(arena_options{.pinned_limit = before + 5 * mib});
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
        auto const in_use = b.take(2 * mib);
        auto const refused = b.reserve(4 * mib);
        BOOST_TEST((refused.bytes_mapped == 4 * mib && refused.bytes_pinned == 0u));
        BOOST_TEST(refused.pin_failure == b.stats().pin_failure);
        BOOST_TEST(b.stats().bytes_mapped == 6 * mib);
        BOOST_TEST(b.stats().bytes_pinned == 2 * mib);
        BOOST_TEST(b.stats().pin_failure.find("would exceed the limit") != std::string::npos);
        BOOST_TEST(pinned_bytes_in_process() == before + 4 * mib);
        BOOST_TEST(a.try_take(100)->pinned());
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
                staging_arena a;
                a.reserve(2 * mib);                                     // pinned by
                a.pin_for(any_memory_space::own(pinner(log)), device);  // call 1 …
                auto in_use = a.take(2 * mib);
                a.reserve(4 * mib);                                           // … and 2,
                a.pin_for(any_memory_space::own(other_pinner(log)), device);  // 3 and 4
                auto const s = a.stats();
                BOOST_TEST(s.bytes_mapped == 6 * mib);
                BOOST_TEST(s.bytes_pinned == 6 * mib);  // each slab by one of them at least
                BOOST_TEST(s.pin_failure.find(text[how]) != std::string::npos, s.pin_failure);
                in_use = {};
                auto const one = a.take(2 * mib), two = a.take(4 * mib);
                BOOST_TEST(one.pinned() != two.pinned());  // for both spaces, or not
                BOOST_TEST(log.pinned.size() == 3u);
            }
            BOOST_TEST(log.pinned.empty());
            BOOST_TEST(pinned_bytes_in_process() == before);
        }
}

BOOST_AUTO_TEST_CASE(a_child_process_gets_no_memory_of_an_arena) {
    pinner::log log;
    auto a = std::make_unique<staging_arena>();
    a->pin_for(any_memory_space::own(pinner(log)), device);
    auto block = std::make_unique<arena_lease>(*a->try_take(10'000));
    auto* const at = block->bytes().data();
    std::memset(at, 7, 10'000);
    // Somebody holds the locks at the moment of the fork: a child that locks never ends.
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            (void)a->try_take(5000);
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
            wrong += refused([&] { (void)a->try_take(1); }) ? 0 : 4;
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

BOOST_AUTO_TEST_SUITE_END()
