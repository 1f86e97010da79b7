// SPDX-License-Identifier: Apache-2.0
// Saves of tensors on devices: the fake GPU works late, and reports what nothing orders.
#include "archetype/memory_space.hpp"
#include "background_ranks.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"
#include "support/whole.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(devices)

namespace asio = boost::asio;
using background_ranks::code_of;
using support::check_clean;
using support::device_tensor;
using support::fake_cuda_memory;
using support::fake_gpu;
using support::on_gpu;

namespace {

/// Tensors on two devices and on the host, of all kinds.
struct mixed_state {
    explicit mixed_state(fake_gpu& gpu)
        : dense(gpu, 0, {40, 50}), gaps(gpu, 1, {7, 5}, {16, 2}),
          transposed(gpu, 0, {6, 4}, {1, 6}), scalar(gpu, 1, cairn::index_vector{}),
          none(gpu, 0, {0, 3}) {}

    void produce(support::gpu::stream* first, support::gpu::stream* second, float from) {
        dense.produce(first, from);
        gaps.produce(second, from + 1);
        transposed.produce(first, from + 2);
        scalar.produce(second, from + 3);
        host.assign(9, from + 4);
    }
    cairn::state_dict dict() {
        return {{"dense", dense.view},   {"tied", dense.view},
                {"gaps", gaps.view},     {"transposed", transposed.view},
                {"scalar", scalar.view}, {"none", none.view},
                {"host", host},          {"step", std::ref(step)}};
    }
    bool is_stored(const support::whole& w) const {
        auto const holds = [&](const char* fqn, const std::vector<float>& v) {
            auto const& bytes = w.tensors.at(fqn).bytes;
            return bytes.size() == v.size() * sizeof(float) &&
                   (v.empty() || std::memcmp(bytes.data(), v.data(), bytes.size()) == 0);
        };
        return holds("dense", dense.produced()) && holds("tied", dense.produced()) &&
               holds("gaps", gaps.produced()) && holds("transposed", transposed.produced()) &&
               holds("scalar", scalar.produced()) && holds("none", {}) && holds("host", host);
    }

    device_tensor dense, gaps, transposed, scalar, none;
    std::vector<float> host{};
    int step = 3;
};

/// Two devices with a stream each, which a function of the tensor finds.
struct two_devices {
    explicit two_devices(std::uint64_t seed, std::uint64_t pinnable = UINT64_MAX)
        : gpu({2, seed, pinnable}), first(gpu.new_stream(0, false)),
          second(gpu.new_stream(1, false)), space([this](const cairn::const_tensor_view& t) {
              return t.device.index == 0 ? first : second;
          }) {}

    fake_gpu gpu;
    support::gpu::stream *first, *second;
    fake_cuda_memory space;
};

std::string text_of(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const std::exception& x) {
        return x.what();
    }
}
bool contains(const std::string& all, std::initializer_list<const char*> parts) {
    for (auto const* p : parts)
        if (all.find(p) == std::string::npos) return false;
    return true;
}
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

template <class F>
std::string error_of(F&& f) {
    try {
        f();
    } catch (const std::exception& e) {
        return e.what();
    }
    return {};
}

/// Runs what is ready until `over`, or nothing happens any more.
template <class Over>
void run_until(asio::io_context& on, Over over) {
    while (!over())
        if (on.run_one_for(std::chrono::seconds(20)) == 0) break;
    BOOST_TEST(over());
}

}  // namespace

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
BOOST_AUTO_TEST_CASE(without_a_fence_it_is_a_race) {
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

/// While a device copies, the tensors are in use: the handler of a cancelled save is called later.
BOOST_AUTO_TEST_CASE(cancelled_while_copying) {
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
BOOST_AUTO_TEST_CASE(a_device_that_does_not_end) {
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
    BOOST_TEST(contains(text, {"copies from devices", "exchange timeout"}), text);
    BOOST_TEST(arena.stats().bytes_abandoned != 0u);
    BOOST_TEST(arena.stats().bytes_in_use == arena.stats().bytes_abandoned);
    arena = cairn::staging_arena();
    gpu.let_go(kernel);
    BOOST_TEST(gpu.synchronize());
    for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule);
}

/// Each call of the device's API fails in turn: an error or nothing, and never a race.
BOOST_AUTO_TEST_CASE(failures_of_the_device) {
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

BOOST_AUTO_TEST_CASE(a_device_that_has_failed) {
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
BOOST_AUTO_TEST_CASE(the_least_space_serves) {
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

/// What a queue throws may be of any type: the error names the tensor and the device.
BOOST_AUTO_TEST_CASE(exceptions_of_any_type) {
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
