// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/memory_spaces.hpp>

#include "archetype/memory_space.hpp"
#include "support/error_codes.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/testing/memory_space.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(spaces)

namespace {

using namespace cairn;
using archetype::memory_space;

using support::is;

/// A queue whose events are reached one by one, when the test says so.
struct scripted {
    struct state {
        int events = 0, reached = 0, asked = 0;
        bool fails = false;
        std::atomic<bool> in_call{false}, leave{true};
        std::vector<std::string> calls{};
    };
    struct queue {
        struct stream {
            int number;
        };
        using event = int;
        state* s;

        void fence(std::span<const const_tensor_view>) { s->calls.push_back("fence"); }
        void to_host(std::span<const pitched_copy>) {
            s->calls.push_back("to_host");
            s->in_call = true;
            while (!s->leave) std::this_thread::yield();
            s->in_call = false;
        }
        void to_device(std::span<const pitched_copy>) { s->calls.push_back("to_device"); }
        event record() { return ++s->events; }
        bool reached(event& e) {
            ++s->asked;
            if (s->fails) throw 42;
            return e <= s->reached;
        }
        void make_wait(const stream& t) { s->calls.push_back("wait " + std::to_string(t.number)); }
    };
    state* s;

    bool serves(device_id d) const { return d.kind == memory_kind::cuda && d.index == 1; }
    void pin(std::span<std::byte>, device_id) {}
    void unpin(std::span<std::byte>, device_id) noexcept {}
    queue open(device_id) { return {s}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(host_and_archetype_keep_the_promises) {
    auto const fill = [](std::byte* p, std::byte value, std::size_t n) {
        std::memset(p, static_cast<int>(value), n);
    };
    auto const allocate = [](std::size_t n) { return new std::byte[n]; };
    auto const release = [](std::byte* p) { delete[] p; };
    host_memory host;
    testing::memory_under_test<host_memory> const h{host, device_id{}, {}, allocate, release, fill};
    for (auto const& failure : testing::memory_space_suite(h)) BOOST_ERROR(failure);

    memory_space least;
    testing::memory_under_test<memory_space> const a{
        least, memory_space::device, archetype::copy_queue::stream(0), allocate, release, fill};
    for (auto const& failure : testing::memory_space_suite(a)) BOOST_ERROR(failure);
    BOOST_TEST(*least.pins() == 0);
    BOOST_TEST(host.serves({memory_kind::pinned, 1}));
    BOOST_TEST(!host.serves({memory_kind::cuda, 0}));
}

BOOST_AUTO_TEST_CASE(events_are_numbered) {
    scripted::state s;
    scripted space{&s};
    auto q = any_memory_space::refer(space).open({memory_kind::cuda, 1});
    BOOST_TEST((q.device() == device_id{memory_kind::cuda, 1}));
    BOOST_TEST(q.reached(0));
    BOOST_TEST((q.record() == 1u && q.record() == 2u && q.record() == 3u));
    BOOST_TEST((!q.reached(1) && !q.reached(3)));
    s.reached = 2;
    BOOST_TEST((q.reached(1) && q.reached(2) && !q.reached(3)));
    auto const asked = s.asked;
    BOOST_TEST((q.reached(1) && q.reached(2)));  // known: the queue is not asked again
    BOOST_TEST(s.asked == asked);
    // A failure of any type loses nothing.
    s.fails = true;
    BOOST_CHECK_THROW((void)q.reached(3), int);
    BOOST_TEST(q.reached(2));
    s.fails = false;
    s.reached = 3;
    BOOST_TEST(q.reached(3));
    BOOST_TEST(!q.reached(4));  // never recorded
    auto moved = std::move(q);
    BOOST_TEST(moved.reached(3));
}

BOOST_AUTO_TEST_CASE(reached_never_waits_for_another_call) {
    scripted::state s;
    scripted space{&s};
    auto q = any_memory_space::refer(space).open({});
    auto const known = q.record(), t = q.record();
    s.reached = 1;
    BOOST_TEST(q.reached(known));
    s.reached = 2;
    s.leave = false;
    std::thread copying([&] {
        pitched_copy const c{};
        q.to_host({&c, 1});
    });
    while (!s.in_call) std::this_thread::yield();
    BOOST_TEST(!q.reached(t));
    BOOST_TEST(q.reached(known));
    s.leave = true;
    copying.join();
    BOOST_TEST(q.reached(t));
}

BOOST_AUTO_TEST_CASE(streams_have_a_type) {
    scripted::state s;
    scripted space{&s};
    auto q = any_memory_space::refer(space).open({});
    q.make_wait(scripted::queue::stream{7});
    BOOST_TEST((s.calls == std::vector<std::string>{"wait 7"}));
    BOOST_CHECK_EXCEPTION(q.make_wait(7), error, is(errc::invalid_argument));
    q.to_host({});  // nothing to copy is not passed on
    q.to_device({});
    BOOST_TEST(s.calls.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_space_lives_as_long_as_its_queues) {
    memory_space owned;
    auto const alive = owned.pins();
    BOOST_TEST(alive.use_count() == 2);
    {
        std::optional<any_copy_queue> q;
        {
            auto space = any_memory_space::own(std::move(owned));
            auto const copy = space;
            q = space.open(memory_space::device);
            BOOST_TEST((copy.serves(memory_space::device) && !copy.serves(device_id{})));
            BOOST_TEST((copy.type() == typeid(memory_space)));
        }
        BOOST_TEST(alive.use_count() == 3);  // the queue's and the space's
        // Assignment ends the old queue before the space that it is of.
        *q = any_memory_space::own(memory_space()).open(memory_space::device);
        BOOST_TEST(alive.use_count() == 1);
    }
    // Slabs keep those that pinned them, too.
    memory_space other;
    auto const pins = other.pins();
    {
        staging_arena staging;
        staging.pin_for(any_memory_space::own(std::move(other)), memory_space::device);
        std::optional<arena_lease> block = staging.try_take(1);
        BOOST_TEST(*pins == 1);
        staging = staging_arena();
        BOOST_TEST(*pins == 1);
        block.reset();
        BOOST_TEST(*pins == 0);
    }
    BOOST_TEST(pins.use_count() == 1);
}

/// An earlier one may refer to a stream that has been destroyed.
BOOST_AUTO_TEST_CASE(memory_is_pinned_by_the_latest_space_of_a_type) {
    memory_space first, second;
    auto const of_first = first.pins(), of_second = second.pins();
    staging_arena staging;
    staging.pin_for(any_memory_space::own(std::move(first)), memory_space::device);
    staging.pin_for(any_memory_space::own(std::move(second)), memory_space::device);
    BOOST_TEST(of_first.use_count() == 1);
    auto const block = staging.try_take(1);
    BOOST_TEST((*of_first == 0 && *of_second == 1));
}

BOOST_AUTO_TEST_CASE(a_device_without_its_space_is_refused_with_what_helps) {
    auto const text = [](memory_spaces& spaces, device_id d) {
        try {
            (void)spaces.serving(d, "model.w");
        } catch (const error& e) {
            BOOST_TEST((e.code() == errc::unsupported));
            BOOST_TEST(e.context().fqn == "model.w");
            return std::string(e.what());
        }
        return std::string();
    };
    auto const has = [](const std::string& s, const char* part) {
        return s.find(part) != std::string::npos;
    };
    device_id const one{memory_kind::cuda, 1};
    memory_spaces none;
    auto const bare = text(none, one);
    BOOST_TEST(has(bare, "'model.w'"));
    BOOST_TEST(has(bare, "expected a memory space for cuda:1 among the arguments, found none"));
    BOOST_TEST(has(bare, "#include <cairn/memory/cuda.hpp>"));
    BOOST_TEST(has(bare, "cairn::cuda_memory(stream)"));
    BOOST_TEST(has(text(none, {own_memory_kind(2), 0}), "models cairn::MemorySpace"));
    BOOST_TEST(text(none, {memory_kind::pinned, 0}) == "");

    scripted::state s;
    scripted space{&s};
    memory_spaces some;
    some.add(any_memory_space::refer(space));
    some.add(any_memory_space::own(memory_space()));
    BOOST_TEST(text(some, one) == "");
    BOOST_TEST(has(text(some, {memory_kind::cuda, 0}), "found 2 for other devices"));
    BOOST_TEST((some.find(memory_space::device)->type() == typeid(memory_space)));
    BOOST_TEST((some.find({})->type() == typeid(host_memory)));
    BOOST_TEST(some.find({memory_kind::cuda, 0}) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
