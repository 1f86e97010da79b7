// SPDX-License-Identifier: Apache-2.0
// Stagers: what is frozen is written from where it is, everything else is copied.
#include "archetype/stager.hpp"
#include "device_state.hpp"

#include <cairn/async_save.hpp>
#include <cairn/memory/frozen_tensors.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(frozen)

using namespace device_state;
using background_ranks::gate;
using background_ranks::gated_store;

namespace {

constexpr std::size_t count = 1000;

struct two_tensors {
    std::vector<float> base = std::vector<float>(count, 1), head = std::vector<float>(count, 1);
    cairn::state_dict dict{{"base.w", base}, {"head.w", head}};
};
/// All of one tensor of a checkpoint, which is equal everywhere.
float stored(cairn::memory_store& s, const char* fqn) {
    return support::only_number(support::load_whole(s, "c").tensors.at(fqn));
}
bool is_base(std::string_view fqn) {
    return fqn.starts_with("base.");
}

}  // namespace

static_assert(cairn::Stager<cairn::staging_arena> && cairn::Stager<cairn::frozen_tensors>);
static_assert(cairn::detail::borrows<cairn::frozen_tensors> &&
              cairn::detail::borrows<cairn::frozen_tensors&> &&
              cairn::detail::borrows<cairn::archetype::stager> &&
              !cairn::detail::borrows<cairn::staging_arena&>);

/// Seen from what a program must not do: a change before the end is in the checkpoint.
BOOST_AUTO_TEST_CASE(frozen_tensors_are_written_from_where_they_are) {
    cairn::memory_store store;
    auto const g = std::make_shared<gate>();
    two_tensors t;
    {
        auto save = cairn::async_save(t.dict, "c", gated_store(store, g), cairn::frozen_tensors(),
                                      asio::use_future)
                        .get();
        t.base.assign(count, 2);
        t.head.assign(count, 2);
        g->let_go();
        (void)save.wait();
    }
    BOOST_TEST(stored(store, "base.w") == 2);
    BOOST_TEST(stored(store, "head.w") == 2);
}

BOOST_AUTO_TEST_CASE(tensors_that_are_not_frozen_may_change_once_staged) {
    for (bool with_arena : {false, true}) {
        cairn::memory_store store;
        auto const g = std::make_shared<gate>();
        two_tensors t;
        cairn::staging_arena arena({.slab_bytes = 1 << 20});
        auto some =
            with_arena ? cairn::frozen_tensors(is_base, arena) : cairn::frozen_tensors(is_base);
        auto save =
            cairn::async_save(t.dict, "c", gated_store(store, g), some, asio::use_future).get();
        if (with_arena)
            BOOST_TEST((arena.stats().bytes_in_use + 63) / 64 == (count * sizeof(float) + 63) / 64);
        t.head.assign(count, 2);
        g->let_go();
        (void)save.wait();
        BOOST_TEST(stored(store, "base.w") == 1);
        BOOST_TEST(stored(store, "head.w") == 1);
        BOOST_TEST(arena.stats().bytes_in_use == 0u);
    }
}

/// One name of tied weights is frozen, and the other is not: the memory may change.
BOOST_AUTO_TEST_CASE(memory_is_frozen_if_all_of_its_names_are) {
    for (auto const* other : {"a.w", "head.w"})
        for (bool with_arena : {false, true}) {
            cairn::memory_store store;
            auto const g = std::make_shared<gate>();
            std::vector<float> w(count, 1);
            cairn::state_dict const tied{{"base.w", w}, {other, w}};
            cairn::staging_arena arena({.slab_bytes = 1 << 20});
            auto some =
                with_arena ? cairn::frozen_tensors(is_base, arena) : cairn::frozen_tensors(is_base);
            auto save =
                cairn::async_save(tied, "c", gated_store(store, g), some, asio::use_future).get();
            w.assign(count, 2);
            g->let_go();
            (void)save.wait();
            BOOST_TEST(stored(store, "base.w") == 1);
            BOOST_TEST(stored(store, other) == 1);
        }
}

/// The tensors are in use until the end: a dropped handle, and a cancelled save, wait for it.
BOOST_AUTO_TEST_CASE(the_handle_waits_for_the_end) {
    for (bool cancelled : {false, true}) {
        cairn::memory_store store;
        auto const g = std::make_shared<gate>();
        auto t = std::make_optional<two_tensors>();
        std::atomic<bool> opened{false};
        auto save = cairn::async_save(t->dict, "c", gated_store(store, g), cairn::frozen_tensors(),
                                      asio::use_future)
                        .get();
        BOOST_REQUIRE(g->wait_for(1));
        std::thread later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            opened = true;
            g->let_go();
        });
        if (cancelled) save.cancel();
        { auto const dropped = std::move(save); }
        BOOST_TEST(opened.load());
        t.reset();  // AddressSanitizer would see a write that still reads it
        later.join();
    }
}

BOOST_AUTO_TEST_CASE(devices_are_copied_all_the_same) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        two_devices d(seed);
        mixed_state from(d.gpu);
        cairn::memory_store store;
        for (bool with_arena : {false, true}) {
            cairn::staging_arena arena;
            from.produce(d.first, d.second, 1);
            auto sd = from.dict();
            auto const all = [](std::string_view) { return true; };
            auto some = with_arena ? cairn::frozen_tensors(all, arena) : cairn::frozen_tensors();
            auto save =
                cairn::async_save(sd, "c", store, d.space, std::move(some), asio::use_future).get();
            from.dense.produce(d.first, 1);  // is ordered after the copy
            (void)save.wait();
            BOOST_TEST(from.is_stored(support::load_whole(store, "c")));
        }
        d.gpu.synchronize();
        check_clean(d.gpu);
    }
}

/// Only to pinned memory does a device copy while it still works on something else.
BOOST_AUTO_TEST_CASE(memory_for_devices_is_pinned) {
    for (bool with_arena : {false, true}) {
        two_devices d(3);
        {
            mixed_state from(d.gpu);
            from.produce(d.first, d.second, 1);
            auto const late = d.gpu.launch(d.first, "a late kernel", {}, {}, true);
            cairn::memory_store store;
            cairn::staging_arena arena;
            auto sd = from.dict();
            auto some =
                with_arena ? cairn::frozen_tensors(is_base, arena) : cairn::frozen_tensors();
            auto staged =
                cairn::async_save(sd, "c", store, d.space, std::move(some), asio::use_future);
            // Those of the second device are let through in any case.
            auto const by = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            while (d.gpu.copies() == 0 && std::chrono::steady_clock::now() < by)
                std::this_thread::yield();
            BOOST_TEST(d.gpu.pinned_bytes() != 0u);
            d.gpu.let_go(late);
            (void)staged.get().wait();
            BOOST_TEST(from.is_stored(support::load_whole(store, "c")));
            d.gpu.synchronize();
        }
        check_clean(d.gpu);
    }
}

/// A stager of the user's, and only what the concept asks for.
BOOST_AUTO_TEST_CASE(a_stager_of_the_users_serves) {
    cairn::memory_store store;
    two_tensors t;
    std::vector<float> kept(count, 5);
    t.dict["frozen"] = kept;
    cairn::archetype::stager mine;
    auto const counts = mine.counts();
    {
        auto save = cairn::async_save(t.dict, "c", store, mine, asio::use_future).get();
        t.base.assign(count, 2);
        (void)save.wait();
    }
    BOOST_TEST(stored(store, "base.w") == 1);
    BOOST_TEST(stored(store, "frozen") == 5);
    BOOST_TEST(counts->ended == 1);
    BOOST_TEST(counts->held == 0);
    BOOST_TEST(counts->abandoned == 0);

    two_devices d(1);
    mixed_state from(d.gpu);
    from.produce(d.first, d.second, 1);
    auto sd = from.dict();
    (void)cairn::async_save(sd, "c", store, mine, d.space, asio::use_future).get().wait();
    BOOST_TEST(from.is_stored(support::load_whole(store, "c")));
    BOOST_TEST(counts->held == 0);
    d.gpu.synchronize();
    check_clean(d.gpu);
}

/// What a stager throws is an error on all ranks, and it is the save that fails, not the program.
BOOST_AUTO_TEST_CASE(a_stager_that_throws_fails_the_save_on_all_ranks) {
    enum { in_copies, in_room, in_take, kinds };
    struct thrower : cairn::staging_arena {
        int in;
        explicit thrower(int k) : in(k) {}
        bool copies(std::string_view) {
            if (in == in_copies) throw 42;
            return true;
        }
        std::uint64_t room() {
            if (in == in_room) throw 42;
            return 1 << 20;
        }
        lease take(std::size_t n) {
            if (in == in_take) throw 42;
            return cairn::staging_arena::take(n);
        }
    };
    static_assert(cairn::Stager<thrower>);
    for (int k = 0; k < kinds; ++k) {
        cairn::memory_store store;
        two_tensors t;
        cairn::save(t.dict, "c", store);
        t.base.assign(count, 2);
        thrower bad(k);
        BOOST_CHECK_THROW(
            (void)cairn::async_save(t.dict, "c", store, bad, asio::use_future).get().wait(),
            cairn::error);
        BOOST_TEST(stored(store, "base.w") == 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
