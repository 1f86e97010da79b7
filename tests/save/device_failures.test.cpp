// SPDX-License-Identifier: Apache-2.0
// Devices that fail, do not end, or are not served: nobody waits, and no memory is used twice.
#include "device_state.hpp"

#include <cairn/async_save.hpp>
#include <cairn/memory/host.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <cstddef>
#include <span>

BOOST_AUTO_TEST_SUITE(device_failures)

using namespace device_state;

namespace {

/// The host's memory, as a device; one function throws something odd, after its effect.
struct thrower {
    static constexpr cairn::device_id device{cairn::own_memory_kind(3), 0};
    struct queue : cairn::host_memory::queue {
        using base = cairn::host_memory::queue;
        explicit queue(std::string w) : which(std::move(w)) {}
        void maybe(const char* here) const {
            if (which == here) throw 42;
        }
        void fence(std::span<const cairn::const_tensor_view>) { maybe("fence"); }
        void to_host(std::span<const cairn::pitched_copy> c) {
            base::to_host(c);
            maybe("to_host");
        }
        event record() {
            maybe("record");
            return {};
        }
        bool reached(event&) {
            maybe("reached");
            return true;
        }
        std::string which;
    };
    std::string which;

    bool serves(cairn::device_id d) const { return d == device; }
    void pin(std::span<std::byte>, cairn::device_id) {}
    void unpin(std::span<std::byte>, cairn::device_id) noexcept {}
    queue open(cairn::device_id) {
        queue(which).maybe("open");
        return queue(which);
    }
};
static_assert(cairn::MemorySpace<thrower>);

}  // namespace

/// While a device copies, the tensors are in use: the handler of a cancelled save is called later.
BOOST_AUTO_TEST_CASE(a_save_that_is_cancelled_while_a_device_copies_ends_after_the_copies) {
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        fake_gpu gpu({1, 5, pinnable});
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {64, 64});
        auto const kernel = w.produce(user, 1, true);
        cairn::memory_store store;
        cairn::state_dict sd{{"w", w.view}};
        cairn::staging_arena arena;
        asio::io_context on;
        asio::cancellation_signal cancel;
        std::exception_ptr failure;
        bool told = false;
        auto const handler = [&](std::exception_ptr e, const cairn::pending_save&) {
            failure = e;
            told = true;
        };
        cairn::async_save(
            sd, "c", store, fake_cuda_memory(user), arena, on.get_executor(),
            asio::bind_cancellation_slot(cancel.slot(), asio::bind_executor(on, handler)));
        for (int i = 0; i < 200 && gpu.copies() == 0; ++i) on.run_one_for(std::chrono::seconds(1));
        cancel.emit(asio::cancellation_type::terminal);
        bool const copying = pinnable != 0;
        if (copying) {
            BOOST_TEST_REQUIRE(gpu.copies() == 1u);
            for (int i = 0; i < 200; ++i) on.poll();
            BOOST_TEST(!told);  // the device will read it
            gpu.let_go(kernel);
        }
        run_until(on, [&] { return told; });
        BOOST_TEST(code_of(failure) == background_ranks::cancelled);
        if (copying) gpu.release(w.at);
        run_until(on, [&] { return arena.stats().bytes_in_use == 0; });
        BOOST_TEST(arena.stats().bytes_abandoned == 0u);
        if (!copying) gpu.let_go(kernel);
        on.run();
        gpu.synchronize();
        for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule);
    }
}

/// A device that never ends does not hold up the save for ever, and gets no other memory in its
/// way.
BOOST_AUTO_TEST_CASE(a_device_that_does_not_end_holds_up_no_save_for_ever) {
    fake_gpu gpu(4);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {64, 64});
    auto const kernel = w.produce(user, 1, true);
    cairn::memory_store store;
    cairn::state_dict sd{{"w", w.view}};
    cairn::staging_arena arena;
    cairn::save_options o;
    o.exchange_timeout = std::chrono::milliseconds(30);
    auto f = cairn::async_save(sd, "c", o, store, fake_cuda_memory(user), arena, asio::use_future);
    auto const text = error_of([&] { (void)f.get(); });
    BOOST_TEST(contains(text, {"'w'", "copies from cuda:0", "exchange_timeout"}), text);
    BOOST_TEST(arena.stats().bytes_abandoned != 0u);
    BOOST_TEST(arena.stats().bytes_in_use == arena.stats().bytes_abandoned);
    arena = cairn::staging_arena();
    gpu.let_go(kernel);
    BOOST_TEST(gpu.synchronize());
    for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule);
}

/// Each call of the device's API fails in turn: an error or nothing, and never a race.
BOOST_AUTO_TEST_CASE(each_failing_call_of_a_device_is_an_error_or_nothing_and_no_race) {
    for (bool const after : {false, true}) {
        int failed = 0;
        for (std::uint64_t nth = 1; nth < 60; ++nth) {
            two_devices d(nth);
            cairn::staging_arena arena;
            mixed_state s(d.gpu);
            s.produce(d.first, d.second, 1);
            auto sd = s.dict();
            cairn::memory_store store;
            d.gpu.fail_call(nth, after);
            std::string text;
            if (nth % 2 == 0)
                text = error_of([&] { cairn::save(sd, "c", store, d.space); });
            else
                text = error_of([&] {
                    (void)cairn::async_save(sd, "c", store, d.space, arena, asio::use_future)
                        .get()
                        .wait();
                });
            failed += !text.empty();
            if (text.empty())
                BOOST_TEST(s.is_stored(support::load_whole(store, "c")));
            else
                BOOST_TEST(contains(text, {"'", "CUDA device", "injected"}), text);
            auto const a = arena.stats();
            BOOST_TEST(a.bytes_in_use == a.bytes_abandoned);
            d.gpu.synchronize();
            for (auto const& rule : d.gpu.broken_rules()) BOOST_ERROR(nth << ": " << rule);
        }
        BOOST_TEST(failed >= 10);
    }
}

BOOST_AUTO_TEST_CASE(a_device_that_has_failed_fails_the_save_and_its_memory_is_abandoned) {
    fake_gpu gpu(4);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {64, 64});
    w.produce(user, 1, true);
    cairn::state_dict sd{{"w", w.view}};
    cairn::staging_arena arena;
    asio::io_context on;
    std::exception_ptr failure;
    cairn::async_save(
        sd, "c", cairn::memory_store(), fake_cuda_memory(user), arena, on.get_executor(),
        asio::bind_executor(
            on, [&](std::exception_ptr e, const cairn::pending_save&) { failure = e; }));
    while (gpu.copies() == 0) on.run_one();
    gpu.fail_device(0);
    on.run();
    BOOST_TEST_REQUIRE(bool(failure));
    BOOST_TEST(contains(text_of(failure), {"'w'", "CUDA device 0"}), text_of(failure));
    BOOST_TEST(arena.stats().bytes_abandoned != 0u);
    BOOST_TEST(arena.stats().bytes_in_use == arena.stats().bytes_abandoned);
}

BOOST_AUTO_TEST_CASE(without_its_space_a_device_is_refused_on_all_ranks) {
    fake_gpu gpu(1);
    device_tensor w(gpu, 0, {4});
    std::vector<float> host(4);
    for (bool const own_kind : {false, true}) {
        std::vector<std::string> texts(2);
        cairn::memory_store store;
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            auto view = w.view;
            if (own_kind) view.device = {cairn::own_memory_kind(7), 2};
            cairn::state_dict sd{{"w", cairn::per_rank(host)}};
            if (me.rank() == 1) sd["layer.w"] = view;
            texts[static_cast<std::size_t>(me.rank())] =
                error_of([&] { cairn::save(sd, "c", me, store); });
        });
        for (auto const& t : texts) {
            BOOST_TEST(contains(t, {"rank 1", "'layer.w'", "a memory space for", "none"}), t);
            BOOST_TEST(contains(t, {own_kind ? "kind 135:2" : "cuda:0"}), t);
            BOOST_TEST(contains(t, {own_kind ? "cairn::MemorySpace" : "cairn/memory/cuda.hpp"}), t);
        }
        BOOST_TEST(store.list().empty());
    }
    check_clean(gpu);
}

/// What a queue throws may be of any type: the error names the tensor and the device.
BOOST_AUTO_TEST_CASE(exceptions_of_any_type_are_errors_that_name_tensor_and_device) {
    for (std::string const which : {"open", "fence", "record", "to_host", "reached"}) {
        std::vector<float> memory(100, 3);
        cairn::state_dict sd{
            {"w", cairn::tensor_view(cairn::dtype::f32, {100}, memory.data(), thrower::device)}};
        auto text = error_of([&] { cairn::save(sd, "c", cairn::memory_store(), thrower{which}); });
        BOOST_TEST(contains(text, {"'w'", "kind 131:0", "unknown type"}), which << ": " << text);
        cairn::staging_arena arena;
        text = error_of([&] {
            (void)cairn::async_save(sd, "c", cairn::memory_store(), thrower{which}, arena,
                                    asio::use_future)
                .get();
        });
        BOOST_TEST(contains(text, {"'w'", "kind 131:0", "unknown type"}), which << ": " << text);
        // Only where the end of the copies is not known, the memory is lost.
        bool const lost = which == "reached" || which == "record";
        bool const begun = which != "open" && which != "fence" && which != "record";
        BOOST_TEST((arena.stats().bytes_abandoned != 0) == (lost && begun), which);
    }
}

/// A rank that only compares its replica with that of another rank.
BOOST_AUTO_TEST_CASE(a_device_that_fails_while_replicas_are_compared_is_named_on_all_ranks) {
    for (std::string const which : {"to_host", "record", "reached"}) {
        for (int const bad : {0, 1}) {
            std::vector<std::string> texts(2);
            cairn::memory_store store;
            cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
                std::vector<float> memory(100, 3);
                cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {100},
                                                              memory.data(), thrower::device)}};
                cairn::save_options o;
                o.replicas = cairn::replica_policy::verify;
                thrower space{me.rank() == bad ? which : ""};
                texts[static_cast<std::size_t>(me.rank())] =
                    error_of([&] { (void)cairn::save(sd, "c", o, me, store, space); });
            });
            for (auto const& t : texts)
                BOOST_TEST(contains(t, {bad == 0 ? "rank 0" : "rank 1", "'w'", "kind 131:0"}),
                           which << " on rank " << bad << ": " << t);
        }
    }
}

/// Memory of a device that was no part of the state was not waited for.
BOOST_AUTO_TEST_CASE(a_planner_cannot_bring_other_device_memory) {
    fake_gpu gpu(1);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {100}), other(gpu, 0, {100});
    struct odd : cairn::default_planner {
        explicit odd(cairn::tensor_view o) : other(std::move(o)) {}
        cairn::item_data resolve_data(const cairn::write_item&) {
            return cairn::const_tensor_view(other);
        }
        cairn::tensor_view other;
    };
    cairn::state_dict sd{{"w", w.view}};
    cairn::memory_store store;
    auto const text =
        error_of([&] { cairn::save(sd, "c", store, fake_cuda_memory(user), odd(other.view)); });
    BOOST_TEST(contains(text, {"'w'", "other memory of cuda:0"}), text);
    BOOST_TEST(
        error_of([&] { cairn::save(sd, "c", store, fake_cuda_memory(user), odd(w.view)); }) == "");
    check_clean(gpu);
}

BOOST_AUTO_TEST_SUITE_END()
