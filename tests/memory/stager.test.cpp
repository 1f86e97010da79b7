// SPDX-License-Identifier: Apache-2.0
// The promises of stagers, and that the suite for them finds what breaks them.
#include "archetype/stager.hpp"
#include "support/no_failures.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/frozen_tensors.hpp>
#include <cairn/testing/stager.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(stager)

template <class S>
void check_kept(S&& s) {
    support::no_failures(cairn::testing::stager_suite(s));
}

BOOST_AUTO_TEST_CASE(stagers_of_the_library_keep_their_promises) {
    check_kept(cairn::staging_arena({.budget = 8 << 20, .slab_bytes = 1 << 20}));
    check_kept(cairn::staging_arena({.persist = false}));
    check_kept(cairn::frozen_tensors());
    cairn::staging_arena rest;
    check_kept(cairn::frozen_tensors([](std::string_view) { return true; }, rest));
}

namespace {

/// A stager that breaks one promise.
struct broken : cairn::staging_arena {
    enum kind { fewer_bytes, misaligned, one_memory, keeps_room, undecided, kinds };
    struct lease : cairn::arena_lease {
        lease(cairn::arena_lease l, kind k) : cairn::arena_lease(std::move(l)), is(k) {}
        std::span<std::byte> bytes() const {
            static std::vector<std::byte> shared(1 << 20);
            auto const b = cairn::arena_lease::bytes();
            if (is == fewer_bytes) return b.first(b.size() - b.size() / 2);
            if (is == one_memory) {
                auto* const p = shared.data();
                auto const off = (64 - reinterpret_cast<std::uintptr_t>(p) % 64) % 64;
                return {p + off, b.size()};
            }
            if (is == misaligned) return {b.data() + 8, b.size() - 64};
            return b;
        }
        kind is;
    };
    explicit broken(kind k) : cairn::staging_arena({.slab_bytes = 4 << 20}), is(k) {}
    lease take(std::size_t n) {
        *taken += n;
        return {cairn::staging_arena::take(n + (is == misaligned ? 64 : 0)), is};
    }
    std::uint64_t room() const { return is == keeps_room ? (1 << 30) - *taken : 1 << 30; }
    bool copies(std::string_view) { return is != undecided || (++asked & 1) != 0; }

    kind is;
    /// Movable, as a stager is.
    std::shared_ptr<std::atomic<std::uint64_t>> taken =
        std::make_shared<std::atomic<std::uint64_t>>(0);
    int asked = 0;
};
static_assert(cairn::Stager<broken>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_suite_finds_what_is_broken) {
    for (int k = 0; k < broken::kinds; ++k) {
        broken b(static_cast<broken::kind>(k));
        BOOST_TEST(!cairn::testing::stager_suite(b).empty(), k);
    }
}

/// All tensors of the frozen stager, and those that are not.
BOOST_AUTO_TEST_CASE(frozen_tensors_are_all_or_those_that_a_function_chooses) {
    BOOST_TEST(!cairn::frozen_tensors().copies("anything"));
    cairn::frozen_tensors const some([](std::string_view fqn) { return fqn == "a"; });
    BOOST_TEST(!some.copies("a"));
    BOOST_TEST(some.copies("b"));
}

BOOST_AUTO_TEST_SUITE_END()
