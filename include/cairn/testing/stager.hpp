// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_STAGER_HPP
#define CAIRN_TESTING_STAGER_HPP

#include <cairn/memory/stager.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Checks the semantics of a Stager, for models of your own. Needs no test framework.
namespace cairn::testing {
namespace detail {

template <Stager S>
class stager_checks {
public:
    explicit stager_checks(S& s) : s_(s) {}

    void memory_is_its_own() {
        std::vector<std::pair<lease, std::byte>> held;
        for (auto const n : {1u, 63u, 64u, 65u, 4096u, 100'001u}) {
            auto const mark = static_cast<std::byte>(held.size() + 1);
            held.emplace_back(take(n), mark);
            auto const b = std::as_const(held.back().first).bytes();
            expect(b.size() == n, "take(" + std::to_string(n) + ") returns " +
                                      std::to_string(b.size()) + " bytes");
            expect(reinterpret_cast<std::uintptr_t>(b.data()) % 64 == 0,
                   "memory that is not aligned to 64 bytes");
            std::fill(b.begin(), b.end(), mark);
        }
        for (auto const& [l, mark] : held) expect(all_are(l, mark), "two leases share memory");
        for (auto& [l, mark] : held) l.end_operation();
    }
    void leases_move() {
        auto first = take(1000);
        std::fill(first.bytes().begin(), first.bytes().end(), std::byte{7});
        auto const* const at = first.bytes().data();
        lease second(std::move(first));
        expect(second.bytes().data() == at && all_are(second, std::byte{7}),
               "a lease that was moved has other memory");
        auto third = take(10);
        third = std::move(second);
        expect(third.bytes().data() == at && all_are(third, std::byte{7}),
               "a lease that was assigned has other memory");
        third.end_operation();
    }
    /// Checks that the room of a lease is free again after it, whichever way it ends.
    void room_comes_back() {
        auto const before = s_.room();
        expect(before != 0, "no room although nothing is in use");
        for (bool ended : {true, false}) {
            {
                auto l = take(1000);
                expect(s_.room() <= before, "more room after a lease was taken");
                if (ended) l.end_operation();
            }
            expect(s_.room() >= before, ended ? "end_operation does not give the memory back"
                                              : "the destructor does not give the memory back");
        }
    }
    /// Checks that abandoned memory is not handed out again.
    void abandoned_memory_stays() {
        auto gone = take(4096);
        auto const at = gone.bytes();
        std::fill(at.begin(), at.end(), std::byte{9});
        gone.abandon();
        for (int i = 0; i < 8; ++i) {
            auto l = take(4096);
            std::fill(l.bytes().begin(), l.bytes().end(), std::byte{3});
            l.end_operation();
        }
        expect(std::all_of(at.begin(), at.end(), [](auto b) { return b == std::byte{9}; }),
               "abandoned memory was used again");
    }
    /// Checks that a save can take the room that was reported.
    void room_can_be_taken() {
        auto const n = std::min<std::uint64_t>(s_.room() / 2, std::uint64_t{1} << 20);
        auto l = take(static_cast<std::size_t>(n));
        expect(l.bytes().size() == n, "half of the room cannot be taken");
        l.end_operation();
    }
    void threads_may_take() {
        on_threads(4, [&](std::size_t t) {
            for (int i = 0; i < 50; ++i) {
                auto l = take(500 + t);
                auto const mark = static_cast<std::byte>(t + 1);
                // Atomic: memory shared by mistake would be a data race otherwise.
                for (auto& b : l.bytes()) atomic(b).store(mark, relaxed);
                std::this_thread::yield();
                for (auto& b : l.bytes())
                    expect(atomic(b).load(relaxed) == mark, "two threads share memory");
                l.end_operation();
            }
        });
    }
    void names_are_judged_alike() {
        for (auto const* fqn : {"", "layers.0.weight", "a"})
            expect(s_.copies(fqn) == s_.copies(fqn),
                   "copies() returns different results for one name");
    }

private:
    using lease = typename S::lease;
    using atomic = std::atomic_ref<std::byte>;
    static constexpr auto relaxed = std::memory_order_relaxed;

    static bool all_are(const lease& l, std::byte value) {
        auto const b = l.bytes();
        return std::all_of(b.begin(), b.end(), [&](auto x) { return x == value; });
    }
    lease take(std::size_t n) { return s_.take(n); }

    S& s_;
};

}  // namespace detail

/// Runs all checks. The stager should have a MiB or more, and be in use by nothing else.
/// @return Descriptions of the failures; empty if there are none.
template <Stager S>
std::vector<std::string> stager_suite(S& s) {
    std::vector<std::string> failures;
    detail::stager_checks<S> checks(s);
    auto const run = [&](const char* name, auto check) {
        detail::run_check(failures, name, check);
    };
    run("memory", [&] { checks.memory_is_its_own(); });
    run("moves", [&] { checks.leases_move(); });
    run("room", [&] { checks.room_comes_back(); });
    run("half of the room", [&] { checks.room_can_be_taken(); });
    run("threads", [&] { checks.threads_may_take(); });
    run("names", [&] { checks.names_are_judged_alike(); });
    run("abandon", [&] { checks.abandoned_memory_stays(); });
    return failures;
}

}  // namespace cairn::testing

#endif
