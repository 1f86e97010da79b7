// SPDX-License-Identifier: Apache-2.0
// save_options::detect_changes: a tensor that changes while it is saved is found and named.
#include "device_state.hpp"
#include "piecewise_store.hpp"

#include <cairn/async_save.hpp>
#include <cairn/memory/frozen_tensors.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(change_check)

using namespace device_state;
using background_ranks::gate;
using background_ranks::gated_store;
using background_ranks::piecewise_store;

namespace {

constexpr std::size_t count = 40000;

struct tensors {
    std::vector<float> a = std::vector<float>(count, 1), b = std::vector<float>(count, 1);
    std::vector<float> wide = std::vector<float>(2 * count, 1);
    cairn::state_dict dict{
        {"a", a},
        {"b", b},
        {"every.second", cairn::tensor_view(cairn::dtype::f32, {count}, {2}, wide.data())},
        {"nothing", cairn::tensor_view(cairn::dtype::f32, {0, 3}, nullptr)},
        {"step", 3}};
};
cairn::save_options detecting() {
    cairn::save_options o;
    o.detect_changes = true;
    return o;
}
float stored(cairn::memory_store& s, const char* fqn) {
    return support::only_number(support::load_whole(s, "c").tensors.at(fqn));
}
/// The save fails, says where and why, and the checkpoint from before is there.
template <class F>
void check_found(cairn::memory_store& store, const char* fqn, F save) {
    BOOST_CHECK_EXCEPTION(save(), cairn::error, [&](const cairn::error& e) {
        BOOST_TEST(e.code() == make_error_code(cairn::errc::state_changed));
        BOOST_TEST(e.context().rank == 0);
        BOOST_TEST(e.context().fqn == fqn);
        BOOST_TEST(contains(e.what(), {"when the save was called", "before_update"}), e.what());
        return true;
    });
    BOOST_TEST(stored(store, "a") == 0);
}
struct place {
    cairn::memory_store store;
    place() {
        tensors old;
        old.a.assign(count, 0);
        cairn::save(old.dict, "c", store);
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_does_not_change_is_saved) {
    place p;
    tensors t;
    cairn::save(t.dict, "c", detecting(), p.store);
    BOOST_TEST(stored(p.store, "a") == 1);
    t.a.assign(count, 2);
    cairn::staging_arena small({.budget = 2 * count * sizeof(float), .slab_bytes = 4096});
    for (auto* arena : {static_cast<cairn::staging_arena*>(nullptr), &small}) {
        auto save =
            arena == nullptr
                ? cairn::async_save(t.dict, "c", detecting(), p.store, asio::use_future)
                : cairn::async_save(t.dict, "c", detecting(), p.store, *arena, asio::use_future);
        auto pending = save.get();
        t.a.assign(count, 3);  // staged: it may change
        (void)pending.wait();
        BOOST_TEST(stored(p.store, "a") == 2);
        t.a.assign(count, 2);
    }
    cairn::async_save(t.dict, "c", detecting(), p.store, cairn::frozen_tensors(), asio::use_future)
        .get()
        .wait();
    BOOST_TEST(stored(p.store, "a") == 2);
}

/// The caller does not wait until it is staged.
BOOST_AUTO_TEST_CASE(a_change_before_the_copy_is_found) {
    for (bool last : {false, true}) {
        place p;
        tensors t;
        asio::io_context on;
        auto staged = cairn::async_save(t.dict, "c", detecting(), p.store, on.get_executor(),
                                        asio::use_future);
        (last ? t.wide[2 * count - 2] : t.b[7]) = 2;
        on.run();
        check_found(p.store, last ? "every.second" : "b", [&] { (void)staged.get().wait(); });
    }
    // What lies between the elements of a tensor is no part of it.
    place p;
    tensors t;
    asio::io_context on;
    auto staged =
        cairn::async_save(t.dict, "c", detecting(), p.store, on.get_executor(), asio::use_future);
    t.wide[1] = 2;
    on.run();
    BOOST_CHECK_NO_THROW((void)staged.get().wait());
}

BOOST_AUTO_TEST_CASE(a_frozen_tensor_that_changes_is_found) {
    place p;
    tensors t;
    auto const g = std::make_shared<gate>();
    auto save = cairn::async_save(t.dict, "c", detecting(), gated_store(p.store, g),
                                  cairn::frozen_tensors(), asio::use_future)
                    .get();
    BOOST_REQUIRE(g->wait_for(1));
    t.b.back() = 2;
    g->let_go();
    check_found(p.store, "b", [&] { (void)save.wait(); });
}
/// The same, of a blocking save: another thread changes what it writes.
BOOST_AUTO_TEST_CASE(a_change_during_a_blocking_save_is_found) {
    place p;
    tensors t;
    auto const g = std::make_shared<gate>();
    std::thread other([&] {
        BOOST_CHECK(g->wait_for(1));
        t.b.back() = 2;
        g->let_go();
    });
    check_found(p.store, "b",
                [&] { cairn::save(t.dict, "c", detecting(), gated_store(p.store, g)); });
    other.join();
}

/// What the memory has no room for is in use until it is written, and not longer.
BOOST_AUTO_TEST_CASE(what_has_no_room_is_compared_when_it_is_written) {
    place p;
    tensors t;
    auto const counts = std::make_shared<piecewise_store::seen>();
    cairn::staging_arena none({.budget = 4096, .slab_bytes = 4096});
    auto staged = cairn::async_save(t.dict, "c", detecting(), piecewise_store(p.store, counts),
                                    none, asio::use_future);
    BOOST_REQUIRE(counts->first.wait_for(1));
    t.b.back() = 2;
    counts->first.let_go();
    check_found(p.store, "b", [&] { (void)staged.get().wait(); });
}

/// An update that does not wait for the copies, on a stream.
BOOST_AUTO_TEST_CASE(an_update_that_comes_too_early_is_found) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        fake_gpu gpu(seed);
        auto* const user = gpu.new_stream(0, false);
        device_tensor w(gpu, 0, {30, 20}), v(gpu, 0, {5});
        w.produce(user, 1);
        v.produce(user, 1);
        cairn::state_dict sd{{"w", w.view}, {"v", v.view}};
        cairn::memory_store store;
        fake_cuda_memory space(user);
        cairn::save(sd, "c", detecting(), store, space);
        auto const before = support::load_whole(store, "c");
        asio::io_context on;
        auto staged = cairn::async_save(sd, "c", detecting(), store, space, on.get_executor(),
                                        asio::use_future);
        w.produce(user, 1000);
        gpu.synchronize();
        on.run();
        BOOST_CHECK_EXCEPTION((void)staged.get().wait(), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::state_changed) &&
                   e.context().fqn == "w";
        });
        BOOST_TEST((support::load_whole(store, "c").tensors.at("w").bytes ==
                    before.tensors.at("w").bytes));
        // Waiting for the copies is enough.
        auto pending =
            cairn::async_save(sd, "c", detecting(), store, space, asio::use_future).get();
        w.produce(user, 5000);
        BOOST_CHECK_NO_THROW((void)pending.wait());
    }
}

/// Tensors are hashed before anything else: what a device never produces is an error in time.
BOOST_AUTO_TEST_CASE(a_device_that_does_not_finish_is_not_waited_for) {
    fake_gpu gpu(3);
    auto* const user = gpu.new_stream(0, false);
    device_tensor w(gpu, 0, {5});
    auto const kernel = w.produce(user, 1, true);
    cairn::state_dict sd{{"w", w.view}};
    cairn::memory_store store;
    auto o = detecting();
    o.exchange_timeout = std::chrono::milliseconds(100);
    std::promise<void> over;
    // Otherwise the test ends by succeeding to save.
    auto const rescue = std::async(std::launch::async, [&, ended = over.get_future()] {
        if (ended.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
            gpu.let_go(kernel);
    });
    BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", o, store, fake_cuda_memory(user)), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::timed_out) &&
                                     e.context().fqn == "w";
                          });
    over.set_value();
    gpu.let_go(kernel);
    gpu.synchronize();
    check_clean(gpu);
}

namespace {

/// Two devices whose addresses are offsets into memory of their own, from the same number on.
struct islands {
    static constexpr auto kind = cairn::own_memory_kind(6);
    static constexpr std::uintptr_t first = 0x10000;
    using memory = std::array<std::vector<float>, 2>;
    struct queue : cairn::host_memory::queue {
        queue(const memory& all, int device) : content(&all[static_cast<std::size_t>(device)]) {}
        void to_host(std::span<const cairn::pitched_copy> copies) {
            for (auto c : copies) {
                c.from = reinterpret_cast<const std::byte*>(content->data()) +
                         (reinterpret_cast<std::uintptr_t>(c.from) - first);
                cairn::host_memory::queue::to_host({&c, 1});
            }
        }
        const std::vector<float>* content;
    };
    const memory* all;

    static cairn::tensor_view view(int device) {
        return {cairn::dtype::f32, {9}, reinterpret_cast<void*>(first), {kind, device}};
    }
    bool serves(cairn::device_id d) const { return d.kind == kind; }
    void pin(std::span<std::byte>, cairn::device_id) {}
    void unpin(std::span<std::byte>, cairn::device_id) noexcept {}
    queue open(cairn::device_id d) { return {*all, d.index}; }
};
static_assert(cairn::MemorySpace<islands>);

}  // namespace

/// Equal addresses of two devices are not the same memory.
BOOST_AUTO_TEST_CASE(equal_addresses_of_two_devices_are_not_the_same_memory) {
    islands::memory const all{std::vector<float>(9, 1), std::vector<float>(9, 2)};
    cairn::state_dict sd{{"w0", islands::view(0)}, {"w1", islands::view(1)}};
    cairn::memory_store store;
    BOOST_CHECK_NO_THROW(cairn::save(sd, "c", detecting(), store, islands{&all}));
    BOOST_TEST(stored(store, "w0") == 1);
    BOOST_TEST(stored(store, "w1") == 2);
}

BOOST_AUTO_TEST_SUITE_END()
