// SPDX-License-Identifier: Apache-2.0
// Between a save and the training that goes on while it copies.
#include "device_state.hpp"

#include <cairn/activity.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/save/detail/overlap_gate.hpp>
#include <cairn/save/detail/start_save.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

BOOST_AUTO_TEST_SUITE(overlap_gate)

using namespace device_state;
using background_ranks::gate;
using background_ranks::gated_store;
using cairn::detail::overlap_gate;

/// The gate calls its continuation once, whichever side comes first.
BOOST_AUTO_TEST_CASE(the_continuation_is_called_once_whichever_side_comes_first) {
    int called = 0;
    overlap_gate first;
    first.copied();
    first.pass();
    first.when_passed([&] { ++called; });
    BOOST_TEST(called == 1);
    overlap_gate second;
    second.when_passed([&] { ++called; });
    BOOST_TEST(called == 1);
    BOOST_TEST(!second.passed());
    second.copied();
    second.pass();
    BOOST_TEST(called == 2);
    BOOST_CHECK_NO_THROW(second.check());
}
BOOST_AUTO_TEST_CASE(a_refusal_opens_the_gate) {
    int called = 0;
    overlap_gate g;
    g.when_passed([&] { ++called; });
    g.refuse(std::make_exception_ptr(42));
    BOOST_TEST(called == 1);
    BOOST_CHECK_THROW(g.check(), int);
}
BOOST_AUTO_TEST_CASE(passing_waits_for_the_copies) {
    overlap_gate g;
    std::atomic<bool> copied{false};
    std::thread save([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        copied = true;
        g.copied();
    });
    g.pass();
    BOOST_TEST(copied.load());
    save.join();
}
/// While they are waited for, other ranks can be told that this one is at work.
BOOST_AUTO_TEST_CASE(whoever_waits_for_the_copies_ticks) {
    auto const ticks_of = [](auto const& wait) {
        std::atomic<int> ticks{0};
        overlap_gate g(std::chrono::milliseconds(1), [&] { ++ticks; });
        std::thread save([&] {
            while (ticks < 3) std::this_thread::yield();
            g.copied();
        });
        wait(g);
        save.join();
        int const waited = ticks;
        wait(g);
        return ticks == waited && waited >= 3;
    };
    BOOST_TEST(ticks_of([](overlap_gate& g) { g.await_copies(); }));
    BOOST_TEST(ticks_of([](overlap_gate& g) { g.await_plan(); }));
    BOOST_TEST(ticks_of([](overlap_gate& g) { g.pass(); }));
    BOOST_TEST(ticks_of([](overlap_gate& g) { g.pass(0); }));  // on any stream
}
/// Others must not be told that this rank is at work while its save is stuck.
BOOST_AUTO_TEST_CASE(whoever_waits_for_a_save_that_is_stuck_ticks_no_more) {
    using namespace std::chrono_literals;
    for (bool const begun : {false, true}) {
        auto const save = std::make_shared<cairn::activity>();
        if (begun) save->enter("write");
        std::atomic<int> ticks{0};
        overlap_gate g(
            1ms, [&] { ++ticks; }, 1s);
        g.works(save);
        std::thread waits([&] { g.pass(); });
        std::this_thread::sleep_for(1500ms);
        int const before = ticks;
        BOOST_TEST(before > 0);
        std::this_thread::sleep_for(50ms);
        BOOST_TEST(ticks == before);
        for (int i = 0; i < 10000 && ticks == before; ++i) {  // it goes on
            save->enter("write");
            std::this_thread::sleep_for(1ms);
        }
        BOOST_TEST(ticks > before);
        g.copied();
        waits.join();
    }
}

namespace {

/// The host's memory, as a device whose copies may fail.
struct frail_memory {
    static constexpr cairn::device_id device{cairn::own_memory_kind(4), 0};
    struct queue : cairn::host_memory::queue {
        explicit queue(bool f) : fails(f) {}
        void to_host(std::span<const cairn::pitched_copy> c) {
            if (fails) throw std::runtime_error("worn out");
            cairn::host_memory::queue::to_host(c);
        }
        bool fails;
    };
    bool fails;

    bool serves(cairn::device_id d) const { return d == device; }
    void pin(std::span<std::byte>, cairn::device_id) {}
    void unpin(std::span<std::byte>, cairn::device_id) noexcept {}
    queue open(cairn::device_id) { return queue(fails); }
};
static_assert(cairn::MemorySpace<frail_memory>);

}  // namespace

/// A rank whose copy fails learns it while the others are still writing theirs.
BOOST_AUTO_TEST_CASE(a_copy_that_fails_is_told_at_once) {
    constexpr int n = 2;
    cairn::memory_store base;
    auto const store = std::make_shared<gate>();
    cairn::thread_group group(n);
    std::vector<std::vector<float>> memory(n, std::vector<float>(9, 1));
    std::vector<std::future<cairn::pending_save>> staged;
    std::vector<std::shared_ptr<overlap_gate>> gates;
    for (int r = 0; r < n; ++r) {
        cairn::tensor_view const w(cairn::dtype::f32, {9},
                                   memory[static_cast<std::size_t>(r)].data(),
                                   frail_memory::device);
        cairn::state_dict sd{{"w" + std::to_string(r), w}};
        gates.push_back(std::make_shared<overlap_gate>());
        cairn::detail::checkpointer_parts more{};
        more.gate = gates.back();
        more.spaces.push_back(cairn::any_memory_space::own(frail_memory{r == 1}));
        auto const told = std::make_shared<std::promise<cairn::pending_save>>();
        staged.push_back(told->get_future());
        cairn::detail::start_save(
            std::make_shared<cairn::detail::flattened_or_error>(sd), "c", cairn::save_options{},
            std::tuple<cairn::thread_group::member, gated_store<cairn::memory_store>>(
                group.rank(r), gated_store(base, store)),
            [told](const std::exception_ptr& e, cairn::pending_save p) {
                if (e)
                    told->set_exception(e);
                else
                    told->set_value(std::move(p));
            },
            more);
    }
    auto const await_copies = [&](std::size_t rank) { gates[rank]->await_copies(); };
    BOOST_CHECK_THROW(await_copies(1), cairn::error);
    BOOST_CHECK_NO_THROW(await_copies(0));
    for (auto& g : gates) g->pass();
    BOOST_TEST(store->wait_for(1));  // rank 0 has not written anything
    store->let_go();
    auto const names_it = [](const cairn::error& e) {
        return contains(e.what(), {"rank 1", "w1", "worn out"});
    };
    BOOST_CHECK_EXCEPTION((void)staged[1].get(), cairn::error, names_it);
    BOOST_CHECK_EXCEPTION((void)staged[0].get().wait(), cairn::error, names_it);
}

BOOST_AUTO_TEST_SUITE_END()
