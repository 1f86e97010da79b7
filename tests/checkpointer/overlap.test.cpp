// SPDX-License-Identifier: Apache-2.0
// checkpointer_options::overlap: tensors are copied while the training goes on.
#include "checkpointed_ranks.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/load.hpp>
#include <cairn/observe/verb_event.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_overlap)

using namespace checkpointed_ranks;
using cairn::busy_policy;

namespace {

cairn::checkpointer_options overlapping(int every = 1) {
    return {.every = cairn::steps(every), .overlap = true};
}
/// What is saved has no room in memory: it is copied when it is written.
cairn::checkpointer_options without_room(cairn::checkpointer_options o) {
    o.arena = {.budget = 1 << 12, .slab_bytes = 1 << 12};
    return o;
}
/// Opens a closed store a while after it was met.
std::future<void> opened_after(control& c, std::chrono::milliseconds time) {
    return std::async(std::launch::async, [&c, time] {
        BOOST_CHECK(c.wait_for(1));
        std::this_thread::sleep_for(time);
        c.open();
    });
}
/// A rank's state whose `state_dict` waits, and so do the copies of all ranks.
struct slow_state {
    rank& me;
    std::shared_future<void> go;
    cairn::state_dict state_dict() {
        if (go.valid()) go.wait();
        return me.state_dict();
    }
    void load_state_dict(const cairn::state_dict&) {}
};
/// The same, with a number beside the tensor.
struct counting_state {
    rank& me;
    std::int64_t& count;
    std::shared_future<void> go;
    cairn::state_dict state_dict() {
        if (go.valid()) go.wait();
        auto d = me.state_dict();
        d["count"] = std::ref(count);
        return d;
    }
    void load_state_dict(const cairn::state_dict&) {}
};

}  // namespace

/// The call returns on a rank while another has not even shown its state.
BOOST_AUTO_TEST_CASE(maybe_save_does_not_wait_for_the_copies) {
    run r(2);
    std::promise<void> shown;
    auto const go = shown.get_future().share();
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(overlapping());
        me.train(1);
        slow_state s{me, me.number == 1 ? go : std::shared_future<void>()};
        BOOST_TEST(bool(ckpt.maybe_save(1, s)));
        if (me.number == 0) shown.set_value();
        ckpt.before_update();
        me.train(2);
        ckpt.before_update();  // nothing to wait for
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
}

/// Numbers are saved as they were in the call, although no rank has planned when it returns.
BOOST_AUTO_TEST_CASE(numbers_may_change_once_the_call_has_returned) {
    run r(2);
    std::promise<void> changed;
    auto const go = changed.get_future().share();
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(overlapping());
        std::int64_t count = 5;
        counting_state s{me, count, me.number == 1 ? go : std::shared_future<void>()};
        BOOST_TEST(bool(ckpt.maybe_save(1, s)));
        count = 6;
        if (me.number == 0) changed.set_value();
        ckpt.before_update();
        BOOST_TEST(ckpt.wait().has_value());
    });
    std::int64_t saved = 0;
    cairn::state_dict what{{"count", std::ref(saved)}};
    (void)cairn::load(what, "step_1", cairn::solo(), r.base);
    BOOST_TEST(saved == 5);
}

/// A loop as users write it: every step is saved as it was.
BOOST_AUTO_TEST_CASE(a_loop_saves_every_step_as_it_was) {
    for (auto const policy : {busy_policy::wait, busy_policy::skip, busy_policy::queue}) {
        run r(4);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto o = overlapping(2);
            o.when_busy = policy;
            o.save.detect_changes = true;
            auto ckpt = me.checkpointer(o);
            me.train(0);
            for (std::int64_t step = 1; step <= 12; ++step) {
                ckpt.before_update();
                me.train(step);
                saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step, me); }));
            }
            (void)ckpt.wait();
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 12u);
        int saved = 0;
        for (int step = 1; step <= 12; ++step) {
            bool const was = all[static_cast<std::size_t>(step - 1)] == "saved";
            saved += was;
            auto const id = "step_" + std::to_string(step);
            BOOST_TEST(r.exists(id) == was);
            if (was) BOOST_TEST(r.value_of(id) == static_cast<float>(step));
        }
        if (policy == busy_policy::wait) BOOST_TEST(saved == 6);
        BOOST_TEST(saved >= 1);
    }
}

/// Nothing is committed before the rank has said that the copies were in time.
BOOST_AUTO_TEST_CASE(a_save_commits_after_before_update) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(overlapping());
        me.train(1);
        (void)ckpt.maybe_save(1, me);
        if (me.number == 0) {
            BOOST_TEST(r.controls[0]->wait_for(1));
            BOOST_TEST(r.controls[1]->wait_for(1));
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            for (auto const& o : r.base.at("step_1").list()) BOOST_TEST(o.name != ".metadata");
        }
        me.meet();
        ckpt.before_update();
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
}

/// Copies of two steps are never committed: the save fails on all ranks, and says who forgot.
BOOST_AUTO_TEST_CASE(a_forgotten_before_update_is_an_error) {
    for (bool saves_next : {true, false}) {
        run r(3);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(overlapping(saves_next ? 1 : 3));
            std::int64_t step = saves_next ? 1 : 3;
            me.train(step);
            saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step, me); }));
            if (me.number != 1) ckpt.before_update();
            me.train(++step);
            if (!saves_next)
                saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step++, me); }));
            saw.add(me.number, outcome_of([&] { return ckpt.save_now(step, me); }));
            saw.add(me.number, outcome_of([&] { return ckpt.save_now(step + 1, me); }));
            (void)ckpt.wait();
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == (saves_next ? 3u : 4u));
        auto const& failed = all[all.size() - 2];
        BOOST_TEST(has(failed, "rank 1"), failed);
        BOOST_TEST(has(failed, "before_update"), failed);
        BOOST_TEST(has(failed, saves_next ? "maybe_save of step 1" : "maybe_save of step 3"),
                   failed);
        BOOST_TEST(all.back() == "saved");
        BOOST_TEST(!r.exists(saves_next ? "step_1" : "step_3"));
    }
}

/// What could not be copied is told by the next call that meets, on all ranks alike.
BOOST_AUTO_TEST_CASE(a_state_that_fails_is_told_later) {
    run r(3);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(overlapping());
        me.refuses_state = me.number == 2;
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(1, me); }));
        ckpt.before_update();
        me.refuses_state = false;
        me.train(2);
        saw.add(me.number, outcome_of([&] { return ckpt.save_now(2, me); }));
        saw.add(me.number, outcome_of([&] { return ckpt.save_now(2, me); }));
        (void)ckpt.wait();
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 3u);
    BOOST_TEST(all[0] == "saved");
    BOOST_TEST(has(all[1], "rank 2"), all[1]);
    BOOST_TEST(all[2] == "saved");
    BOOST_TEST(!r.exists("step_1"));
    BOOST_TEST(r.value_of("step_2") == 2.0f);
}

/// The last calls of a program need no before_update: no tensor changes any more.
BOOST_AUTO_TEST_CASE(the_end_of_a_program_needs_no_before_update) {
    enum { by_wait, by_save_now, by_load, by_destructor, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        run r(2);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(overlapping());
            me.train(1);
            (void)ckpt.maybe_save(1, me);
            if (kind == by_wait) BOOST_TEST(ckpt.wait().has_value());
            if (kind == by_save_now) {
                auto const again = ckpt.save_now(1, me);
                BOOST_TEST((again.saved && again.completed));
            }
            if (kind == by_load) (void)ckpt.load("step_1", me);
        });
        BOOST_TEST(r.value_of("step_1") == 1.0f);
    }
}

/// `save_now` overlaps with nothing: the tensors may change when it returns.
BOOST_AUTO_TEST_CASE(save_now_waits_for_the_copies) {
    run r(1);
    r.controls[0]->close();
    r.on_ranks([&](rank& me) {
        me.more.assign(100'000, 1);
        me.train(1);
        auto ckpt = me.checkpointer(without_room(overlapping()));
        auto const opener = opened_after(*r.controls[0], std::chrono::milliseconds(30));
        BOOST_TEST(bool(ckpt.save_now(1, me)));
        me.more.assign(100'000, 2);
        me.train(2);
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
    BOOST_TEST(support::only_number(support::load_whole(r.base, "step_1").tensors.at("more")) ==
               1.0f);
}

/// The time for which `before_update` stops the training is a stall: 0.3 s of it are one percent of
/// more time than this test takes.
BOOST_AUTO_TEST_CASE(the_wait_before_an_update_counts_as_overhead) {
    run r(1);
    r.controls[0]->close();
    r.on_ranks([&](rank& me) {
        me.more.assign(100'000, 1);
        auto o = without_room(overlapping());
        o.every = cairn::overhead(0.01, std::chrono::seconds(0));
        auto ckpt = me.checkpointer(o);
        BOOST_TEST(bool(ckpt.maybe_save(1, me)));
        auto const opener = opened_after(*r.controls[0], std::chrono::milliseconds(300));
        ckpt.before_update();
        auto const next = ckpt.maybe_save(2, me);
        BOOST_TEST((!next.saved && !next.postponed));
    });
}

/// With a policy to cancel, the destructor does not write what nobody waits for.
BOOST_AUTO_TEST_CASE(destruction_may_cancel) {
    run r(2);
    for (auto& c : r.controls) c->close();
    r.on_ranks([&](rank& me) {
        auto o = overlapping();
        o.destruction = cairn::destruction_policy::cancel;
        auto ckpt = std::make_unique<cairn::checkpointer>(me.checkpointer(o));
        me.train(1);
        (void)ckpt->maybe_save(1, me);
        auto const opener = std::async(std::launch::async, [&, n = me.number] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            r.controls[static_cast<std::size_t>(n)]->open();
        });
        ckpt.reset();
    });
    BOOST_TEST(!r.exists("step_1"));
}

/// Only the coordinator's option counts: ranks that differ do not block each other.
BOOST_AUTO_TEST_CASE(the_coordinator_decides_whether_saves_overlap) {
    for (bool coordinator : {false, true}) {
        run r(2);
        r.on_ranks([&](rank& me) {
            auto o = overlapping();
            o.overlap = (me.number == 0) == coordinator;
            auto ckpt = me.checkpointer(o);
            for (std::int64_t step = 1; step <= 3; ++step) {
                ckpt.before_update();
                me.train(step);
                (void)ckpt.maybe_save(step, me);
            }
            BOOST_TEST(ckpt.wait().has_value());
        });
        for (int step = 1; step <= 3; ++step)
            BOOST_TEST(r.value_of("step_" + std::to_string(step)) == static_cast<float>(step));
    }
}

namespace {

using support::device_tensor;
using support::fake_cuda_memory;
using support::fake_gpu;

/// A tensor on a device and one in host memory.
struct device_state {
    explicit device_state(fake_gpu& gpu) : w(gpu, 0, {30, 20}) {}
    cairn::state_dict state_dict() { return {{"w", w.view}, {"host", host}}; }
    void load_state_dict(const cairn::state_dict&) {}
    bool is_stored(cairn::memory_store& base, const char* id, const std::vector<float>& all) const {
        auto const bytes = support::load_whole(base, id).tensors.at("w").bytes;
        return bytes.size() == all.size() * sizeof(float) &&
               std::memcmp(bytes.data(), all.data(), bytes.size()) == 0;
    }
    device_tensor w;
    std::vector<float> host = std::vector<float>(7, 1);
};
struct counting_sink {
    std::shared_ptr<std::atomic<int>> events = std::make_shared<std::atomic<int>>(0);
    void notify(const cairn::verb_event&) { ++*events; }
};

}  // namespace

/// The update is enqueued while the copies are under way, and starts after them.
BOOST_AUTO_TEST_CASE(an_update_on_a_stream_is_ordered) {
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        for (std::uint64_t seed = 1; seed <= 15; ++seed) {
            fake_gpu gpu({1, seed, pinnable});
            auto* const user = gpu.new_stream(0, false);
            cairn::memory_store base;
            counting_sink const sink;
            {
                device_state s(gpu), to(gpu);
                cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), fake_cuda_memory(user),
                                         sink);
                std::vector<std::vector<float>> steps;
                for (std::int64_t step = 1; step <= 3; ++step) {
                    ckpt.before_update(user);
                    s.w.produce(user, static_cast<float>(1000 * step));
                    s.host.assign(7, static_cast<float>(step));
                    steps.push_back(s.w.produced());
                    BOOST_TEST(bool(ckpt.maybe_save(step, s)));
                }
                BOOST_TEST(ckpt.wait().has_value());
                for (std::size_t i = 0; i < 3; ++i)
                    BOOST_TEST(
                        s.is_stored(base, ("step_" + std::to_string(i + 1)).c_str(), steps[i]));
                BOOST_TEST(sink.events->load() > 0);
                BOOST_TEST((ckpt.staging_memory().bytes_pinned != 0) == (pinnable != 0));
                to.w.produce(user, 0);
                (void)ckpt.load("step_2", to);
                BOOST_TEST((to.w.elements() == steps[1]));
                gpu.synchronize();
            }
            support::check_clean(gpu);
        }
    }
}

/// What has no room in the arena is written from the tensors: that it is enqueued is not enough.
BOOST_AUTO_TEST_CASE(what_has_no_room_is_waited_for) {
    run r(1);
    r.controls[0]->close();
    r.on_ranks([&](rank& me) {
        fake_gpu gpu(1);
        auto* const user = gpu.new_stream(0, false);
        device_state s(gpu);
        s.host.assign(100'000, 1);
        s.w.produce(user, 1);
        auto const all = s.w.produced();
        {
            auto o = overlapping();
            o.arena = {.budget = 1 << 16, .slab_bytes = 1 << 16};
            cairn::checkpointer ckpt(me.member, me.store, o, fake_cuda_memory(user));
            (void)ckpt.maybe_save(1, s);
            auto const opener = std::async(std::launch::async, [&] {
                BOOST_CHECK(r.controls[0]->wait_for(1));
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                r.controls[0]->open();
            });
            ckpt.before_update(user);
            s.host.assign(100'000, 2);
            s.w.produce(user, 500);
            BOOST_TEST(ckpt.wait().has_value());
        }
        BOOST_TEST(s.is_stored(r.base, "step_1", all));
        BOOST_TEST(support::only_number(support::load_whole(r.base, "step_1").tensors.at("host")) ==
                   1.0f);
        gpu.synchronize();
        support::check_clean(gpu);
    });
}

/// A graph that is being captured would wait for the copies each time that it is launched.
BOOST_AUTO_TEST_CASE(a_capturing_stream_is_refused) {
    fake_gpu gpu(1);
    auto* const user = gpu.new_stream(0, false);
    auto* const other = gpu.new_stream(0, false);
    cairn::memory_store base;
    device_state s(gpu);
    s.w.produce(user, 1);
    auto const kernel = s.w.produce(user, 2, true);
    auto const all = s.w.produced();
    cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), fake_cuda_memory(user));
    (void)ckpt.maybe_save(1, s);
    gpu.begin_capture(other, support::gpu::relaxed);
    BOOST_CHECK_EXCEPTION(ckpt.before_update(other), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::invalid_argument) &&
               has(e.what(), "capture");
    });
    (void)gpu.end_capture(other);
    gpu.let_go(kernel);
    ckpt.before_update(other);
    BOOST_TEST(ckpt.wait().has_value());
    BOOST_TEST(s.is_stored(base, "step_1", all));
}

/// A stream of another kind than the memory space's: the call blocks until the copies are complete.
BOOST_AUTO_TEST_CASE(an_update_on_an_unknown_stream_waits_for_the_copies) {
    fake_gpu gpu(1);
    auto* const user = gpu.new_stream(0, false);
    cairn::memory_store base;
    device_state s(gpu);
    s.w.produce(user, 1);
    auto const all = s.w.produced();
    cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), fake_cuda_memory(user));
    (void)ckpt.maybe_save(1, s);
    ckpt.before_update(std::string("a stream"));
    s.w.produce(user, 100);
    BOOST_TEST(ckpt.wait().has_value());
    BOOST_TEST(s.is_stored(base, "step_1", all));
    gpu.synchronize();
    BOOST_TEST(gpu.broken_rules().empty());
}

BOOST_AUTO_TEST_SUITE_END()
