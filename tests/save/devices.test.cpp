// SPDX-License-Identifier: Apache-2.0
// Saves of tensors on devices: the fake GPU works late, and reports what nothing orders.
#include "archetype/memory_space.hpp"
#include "device_state.hpp"

#include <cairn/async_save.hpp>

#include <optional>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(devices)

using namespace device_state;

BOOST_AUTO_TEST_CASE(what_is_on_devices_is_saved_and_loaded) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        two_devices d(seed);
        mixed_state from(d.gpu), to(d.gpu);
        cairn::memory_store store;
        from.produce(d.first, d.second, 1);
        auto sd = from.dict();
        BOOST_CHECK_NO_THROW(cairn::save(sd, "c", store, d.space));
        BOOST_TEST(from.is_stored(support::load_whole(store, "c")));
        // The next step's update races with nothing.
        from.produce(d.first, d.second, 1);

        to.produce(d.first, d.second, 500);
        to.host.assign(9, 0);
        to.step = 0;
        auto into = to.dict();
        BOOST_CHECK_NO_THROW(cairn::load(into, "c", d.space, store));
        BOOST_TEST((to.dense.elements() == from.dense.produced()));
        BOOST_TEST((to.gaps.elements() == from.gaps.produced()));
        BOOST_TEST((to.transposed.elements() == from.transposed.produced()));
        BOOST_TEST((to.scalar.elements() == from.scalar.produced()));
        BOOST_TEST((to.host == from.host && to.step == 3));
        auto const memory = to.gaps.now();
        BOOST_TEST((memory[1] == to.gaps.memory[1] && memory[15] == to.gaps.memory[15]));  // gaps
        to.produce(d.first, d.second, 7);
        d.gpu.synchronize();
        check_clean(d.gpu);
    }
}

/// The promises above are worth something: a space whose copies wait for nothing is found out.
BOOST_AUTO_TEST_CASE(a_copy_without_a_fence_is_a_race) {
    struct hasty : fake_cuda_memory {
        struct queue : fake_cuda_memory::queue {
            queue(fake_cuda_memory::queue q) : fake_cuda_memory::queue(std::move(q)) {}
            void fence(std::span<const cairn::const_tensor_view>) {}
        };
        using fake_cuda_memory::fake_cuda_memory;
        queue open(cairn::device_id d) { return queue(fake_cuda_memory::open(d)); }
    };
    fake_gpu gpu(3);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {100});
    w.produce(user, 1);
    cairn::state_dict sd{{"w", w.view}};
    cairn::save(sd, "c", cairn::memory_store(), hasty(user));
    gpu.synchronize();
    BOOST_TEST(gpu.broken_rules().size() >= 1u);
}

BOOST_AUTO_TEST_CASE(tensors_may_change_once_staged) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        std::optional<two_devices> d(std::in_place, seed);
        std::optional<cairn::staging_arena> arena(std::in_place);
        cairn::memory_store store;
        mixed_state s(d->gpu);
        for (float from : {1.0f, 100.0f}) {
            s.produce(d->first, d->second, from);
            auto sd = s.dict();
            auto const before = arena->stats();
            // The save has a copy of the space, also where the arena is pinned for it.
            fake_cuda_memory lent = d->space;
            auto pending = cairn::async_save(sd, "c", store, *arena, lent, asio::use_future).get();
            static_assert(!cairn::detail::borrows<fake_cuda_memory&>);
            s.produce(d->first, d->second,
                      from);  // is ordered after the copies: the host has seen them
            BOOST_CHECK_NO_THROW((void)pending.wait());
            BOOST_TEST(s.is_stored(support::load_whole(store, "c")));
            BOOST_TEST(arena->stats().bytes_in_use == 0u);
            BOOST_TEST(arena->stats().bytes_pinned != 0u);
            if (from > 1) BOOST_TEST(arena->stats().page_faults == before.page_faults);
        }
        arena.reset();
        d->gpu.synchronize();
        check_clean(d->gpu);
    }
}

/// Copies from devices need their room: host tensors take the rest, even those that come before in
/// the state, and what is left is written from them.
BOOST_AUTO_TEST_CASE(devices_come_first_where_room_is_short) {
    constexpr std::size_t kib = 1024;
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        fake_gpu gpu({1, 4, pinnable});
        {
            auto* const user = gpu.new_stream(0, false);
            device_tensor z(gpu, 0, {36 * kib / sizeof(float)});
            z.produce(user, 1);
            auto const all = z.produced();
            std::vector<std::vector<float>> host(3,
                                                 std::vector<float>(20 * kib / sizeof(float), 1));
            cairn::state_dict sd{{"a", host[0]}, {"b", host[1]}, {"c", host[2]}, {"z", z.view}};
            cairn::memory_store store;
            cairn::staging_arena arena({.budget = 64 * kib, .slab_bytes = 64 * kib});
            auto pending =
                cairn::async_save(sd, "c", store, fake_cuda_memory(user), arena, asio::use_future)
                    .get();
            BOOST_TEST(arena.stats().peak_in_use == 56 * kib);
            for (auto& h : host) h.assign(h.size(), 2);
            z.produce(user, 5000);
            (void)pending.wait();
            BOOST_TEST(arena.stats().bytes_in_use == 0u);
            auto const stored = support::load_whole(store, "c").tensors;
            for (auto const* fqn : {"a", "b", "c"})
                BOOST_TEST(support::only_number(stored.at(fqn)) == 1.0f);
            BOOST_TEST(std::memcmp(stored.at("z").bytes.data(), all.data(), z.bytes()) == 0);
            gpu.synchronize();
        }
        check_clean(gpu);
    }
}

/// No thread waits for a device: the executor does other work, whether memory is pinned or not.
BOOST_AUTO_TEST_CASE(a_late_kernel_holds_up_no_thread) {
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        fake_gpu gpu({1, 5, pinnable});
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {64, 64});
        auto const kernel = w.produce(user, 1, true);
        cairn::memory_store store;
        cairn::state_dict sd{{"w", w.view}};
        asio::io_context on;
        std::exception_ptr failure;
        bool staged = false, durable = false;
        std::optional<cairn::pending_save> pending;
        cairn::async_save(sd, "c", store, fake_cuda_memory(user), on.get_executor(),
                          asio::bind_executor(on, [&](std::exception_ptr e, cairn::pending_save p) {
                              failure = e;
                              staged = true;
                              pending = std::move(p);
                          }));
        for (int i = 0; i < 200; ++i) on.poll();
        BOOST_TEST(!staged);
        gpu.let_go(kernel);
        run_until(on, [&] { return staged; });
        BOOST_TEST(!failure);
        pending->async_wait(
            asio::bind_executor(on, [&](const std::exception_ptr& e, const cairn::save_report&) {
                failure = e;
                durable = true;
            }));
        run_until(on, [&] { return durable; });
        BOOST_TEST(!failure);
        auto const stored = support::load_whole(store, "c");
        BOOST_TEST(std::memcmp(stored.tensors.at("w").bytes.data(), w.memory.data(), w.bytes()) ==
                   0);
        pending.reset();
        check_clean(gpu);
    }
}

/// Two ranks save, three load, each on a device of its own.
BOOST_AUTO_TEST_CASE(device_shards_are_resharded) {
    fake_gpu gpu({3, 9});
    cairn::memory_store store;
    auto const shard = [](device_tensor& t, int rank, int ranks) {
        return cairn::shard_by_mesh(t.view, {6, 8}, cairn::device_mesh::line(ranks),
                                    {cairn::shard_along{0}}, rank);
    };
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        auto* const user = gpu.new_stream(me.rank());
        device_tensor part(gpu, me.rank(), {3, 8});
        part.produce(user, static_cast<float>(24 * me.rank()));
        cairn::state_dict sd{{"w", shard(part, me.rank(), 2)}};
        cairn::save(sd, "c", fake_cuda_memory(user), me, store);
    });
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        auto* const user = gpu.new_stream(me.rank());
        device_tensor part(gpu, me.rank(), {2, 8}, {20, 2});
        part.produce(user, 1000);
        cairn::state_dict sd{{"w", shard(part, me.rank(), 3)}};
        cairn::load(sd, "c", me, fake_cuda_memory(user), store);
        auto const got = part.elements();
        for (std::size_t i = 0; i < 16; ++i)
            if (got[i] != static_cast<float>(16 * static_cast<std::size_t>(me.rank()) + i))
                throw std::runtime_error("another element");
    });
    gpu.synchronize();
    check_clean(gpu);
}

/// Replicas on devices, and on a device and the host, are compared like all others.
BOOST_AUTO_TEST_CASE(replicas_on_devices_are_compared) {
    for (bool const gaps : {false, true}) {
        for (float const odd : {0.0f, 5.0f}) {
            fake_gpu gpu({2, 9});
            cairn::memory_store store;
            std::vector<std::string> texts(3);
            cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
                // More than one round of copies.
                cairn::index_vector const shape{900, 1000}, strides{gaps ? 1100 : 1000, 1};
                auto* const user = gpu.new_stream(me.rank() % 2);
                device_tensor part(gpu, me.rank() % 2, shape, strides);
                part.produce(user, me.rank() == 1 ? odd : 0.0f);
                auto copy = part.memory;
                cairn::state_dict sd{{"w", me.rank() == 2 ? part.on_host(copy) : part.view}};
                cairn::save_options o;
                o.replicas = cairn::replica_policy::verify;
                texts[static_cast<std::size_t>(me.rank())] =
                    error_of([&] { cairn::save(sd, "c", o, me, store, fake_cuda_memory(user)); });
            });
            for (auto const& t : texts) {
                if (odd == 0.0f)
                    BOOST_TEST(t == "");
                else
                    BOOST_TEST(contains(t, {"'w'", "on rank 1, other content on ranks 0, 2"}), t);
            }
            gpu.synchronize();
            check_clean(gpu);
        }
    }
}

/// The concept asks for enough.
BOOST_AUTO_TEST_CASE(a_space_with_no_more_than_the_concept_asks_for_serves) {
    using cairn::archetype::memory_space;
    std::vector<float> memory(100, 3), back(100);
    auto const view = [](std::vector<float>& v) {
        return cairn::tensor_view(cairn::dtype::f32, {100}, v.data(), memory_space::device);
    };
    cairn::state_dict sd{{"w", view(memory)}}, into{{"w", view(back)}};
    cairn::memory_store store;
    memory_space lent;
    cairn::save(sd, "a", store, lent);
    cairn::save(sd, "b", store, memory_space());
    auto pending = cairn::async_save(sd, "c", store, lent, asio::use_future).get();
    static_assert(cairn::detail::borrows<memory_space&>);  // it cannot be copied
    (void)pending.wait();
    cairn::staging_arena arena;
    (void)cairn::async_save(sd, "d", store, memory_space(), arena, asio::use_future).get().wait();
    for (auto const* id : {"a", "b", "c", "d"}) {
        back.assign(100, 0);
        cairn::load(into, id, store, lent);
        BOOST_TEST((back == memory));
    }
    BOOST_TEST(*lent.pins() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
