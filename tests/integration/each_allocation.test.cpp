// SPDX-License-Identifier: Apache-2.0
// Every allocation of a save and of a load fails in turn: the verb ends on every rank, with an
// error of cairn's own or with success, and truthfully; no thread is left, the checkpoint that
// stood stands, or the new one, and what follows works.
#include "support/allocations.hpp"
#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"

#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(each_allocation)

namespace {

using support::failing_allocation;
using support::told;
using whose = failing_allocation::of;

constexpr std::uint64_t stride = support::stride_if_sanitized(31);
constexpr float before = 1, saved = 2, later = 3;

/// Threads of this process; the pools of cairn, which stay, have been started before.
std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
}
/// Whether all threads but so many end. One that was joined may be seen a little longer.
bool end_but(std::ptrdiff_t so_many) {
    for (int i = 0; i < 1000; ++i) {
        if (threads() <= so_many) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

/// What one rank does with its state.
using job =
    std::function<void(cairn::thread_group::member&, support::rank_state&, cairn::memory_store&)>;

struct ending {
    std::vector<told> all{};
    std::vector<support::rank_state> states{};
    bool hit = false;
};
/// Allocations fail while all ranks are in the verb, not in what they do before and after it.
/// @param value  Of the ranks' states.
ending run(const job& what, int ranks, whose of, std::uint64_t nth, float value,
           const cairn::memory_store& base) {
    ending e;
    e.states.reserve(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) e.states.emplace_back(value, r, ranks);
    std::optional<failing_allocation> fails;
    std::latch ready(ranks), set(ranks), over(ranks), reset(ranks);
    e.all = support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        auto store = base;
        std::exception_ptr thrown;
        ready.arrive_and_wait();
        if (rank == 0) fails.emplace(of, nth);
        set.arrive_and_wait();
        try {
            what(me, e.states[static_cast<std::size_t>(rank)], store);
        } catch (...) {
            thrown = std::current_exception();
        }
        over.arrive_and_wait();
        if (rank == 0) {
            e.hit = fails->hit();
            fails.reset();
        }
        reset.arrive_and_wait();
        if (thrown) std::rethrow_exception(thrown);
    });
    return e;
}

void check_told(const ending& e, whose of) {
    for (auto const& t : e.all) {
        BOOST_TEST(!t.raw);
        BOOST_TEST_REQUIRE(!t.is(cairn::errc::timed_out));
        if (!e.hit) BOOST_TEST(t.ok());
    }
    // Of another code only if the group or the pool had no memory to say so.
    auto const& mine = e.all[0];
    if (!mine.e || of != whose::this_thread) return;
    bool known = mine.e->code() == make_error_code(boost::system::errc::not_enough_memory);
    for (auto const c :
         {cairn::errc::rank_failed, cairn::errc::abandoned, cairn::errc::outcome_unknown}) {
        known = known || mine.is(c);
        // Behind that of a rank whose exchange was cut for it.
        for (auto const& f : mine.e->failures()) known = known || f.code == make_error_code(c);
    }
    BOOST_TEST(known);
}
/// Calls `once(nth, whose)` for each allocation until it returns that there were not so many.
/// @return how many failed.
/// @param threads  Whose allocations.
int each_failure(const std::function<bool(std::uint64_t, whose)>& once,
                 std::initializer_list<whose> threads = {whose::this_thread,
                                                         whose::other_threads}) {
    int tried = 0;
    for (auto const of : threads) {
        // How many come before one of another thread's differs a little from run to run.
        std::uint64_t const step = of == whose::this_thread ? stride : 3 * stride;
        std::uint64_t nth = 0;
        for (; once(nth, of); nth += step) ++tried;
        BOOST_TEST_REQUIRE(nth < 100'000u);
    }
    return tried;
}
std::string in_words(const ending& e, int ranks, whose of, std::uint64_t nth) {
    return std::to_string(ranks) + " ranks, allocation " + std::to_string(nth) +
           (of == whose::this_thread ? " of rank 0's thread" : " of another thread") +
           support::words(e.all);
}

/// A save over another one, in which that allocation fails, and what must be true after it.
bool save_without(
    const job& save, int ranks, whose of, std::uint64_t nth,
    const std::function<void()>& check = [] {}) {
    cairn::memory_store base;
    (void)support::save_on_ranks(before, ranks, [&](int) { return base; });
    auto const e = run(save, ranks, of, nth, saved, base);
    BOOST_TEST_CONTEXT(in_words(e, ranks, of, nth)) {
        check_told(e, of);
        support::check_save(base, e.all, before, saved, ranks);
        support::check_next_save(base, later, ranks);
        check();
    }
    return e.hit;
}
int fail_saves(int ranks) {
    auto const save = [](auto& me, support::rank_state& s, auto& store) {
        auto o = support::patient_save();
        o.storage.thread_count = 2;
        (void)cairn::save(s.dict, "c", o, me, store);
    };
    {  // what the program has once is there from now on
        cairn::memory_store base;
        support::check_next_save(base, before, ranks);
    }
    auto const threads_before = threads();
    return each_failure([&](std::uint64_t nth, whose of) {
        return save_without(save, ranks, of, nth, [&] { BOOST_TEST(end_but(threads_before)); });
    });
}
/// Of the calls that start saves: what fails later may leave nobody who can be told.
int fail_calls_of_async_save() {
    constexpr int ranks = 2;
    auto const save = [](auto& me, support::rank_state& s, auto& store) {
        support::save_as(support::verb::background, s, me, store);
    };
    return each_failure(
        [&](std::uint64_t nth, whose of) { return save_without(save, ranks, of, nth); },
        {whose::this_thread});
}
/// Of saves that reuse the plan of the first, or that keep theirs for the next.
int fail_saves_with_kept_plans(int ranks, bool reused) {
    std::vector<cairn::plan_cache> caches;
    auto const save = [&](auto& me, support::rank_state& s, auto& store) {
        (void)cairn::save(s.dict, "c", support::patient_save(), me, store,
                          caches[static_cast<std::size_t>(me.rank())]);
    };
    auto const all_save = [&](float v, cairn::memory_store& base) {
        auto const e = run(save, ranks, whose::this_thread, UINT64_MAX, v, base);
        for (auto const& t : e.all) BOOST_TEST(t.ok(), support::words(e.all));
        BOOST_TEST(support::standing(base, ranks) == v);
    };
    return each_failure([&](std::uint64_t nth, whose of) {
        caches = {};
        for (int r = 0; r < ranks; ++r) caches.emplace_back();
        cairn::memory_store base;
        all_save(before, base);
        if (!reused)
            for (auto& c : caches) c.clear();
        auto const e = run(save, ranks, of, nth, saved, base);
        BOOST_TEST_CONTEXT(in_words(e, ranks, of, nth)) {
            check_told(e, of);
            support::check_save(base, e.all, before, saved, ranks);
            all_save(later, base);
            all_save(later + 1, base);
        }
        return e.hit;
    });
}
/// @param shares  Over a data plane whose group is not that of the load: neither cancels the other.
ending run_load(bool shares, int ranks, whose of, std::uint64_t nth,
                const cairn::memory_store& base) {
    cairn::thread_group group(ranks);
    std::deque<cairn::thread_group::member> members;
    std::deque<cairn::communicator_data_plane<cairn::thread_group::member>> planes;
    for (int r = 0; r < ranks; ++r) {
        members.push_back(group.rank(r));
        planes.emplace_back(members.back());
    }
    auto const load = [&](auto& me, support::rank_state& s, auto& store) {
        auto o = support::patient_load();
        o.storage.thread_count = 2;
        o.read_once_from = 0;
        if (shares)
            (void)cairn::load(s.dict, "c", o, me, planes[static_cast<std::size_t>(me.rank())],
                              store);
        else
            (void)cairn::load(s.dict, "c", o, me, store);
    };
    return run(load, ranks, of, nth, 0, base);
}
int fail_loads(int ranks, bool shares = false) {
    cairn::memory_store base;
    support::check_next_save(base, before, ranks);
    auto const threads_before = threads();
    return each_failure([&](std::uint64_t nth, whose of) {
        auto const e = run_load(shares, ranks, of, nth, base);
        BOOST_TEST_CONTEXT(in_words(e, ranks, of, nth)) {
            check_told(e, of);
            for (std::size_t r = 0; r < e.all.size(); ++r)
                if (e.all[r].ok()) BOOST_TEST(e.states[r].is(before));
            BOOST_TEST(support::standing(base, ranks) == before);
            BOOST_TEST(end_but(threads_before));
        }
        return e.hit;
    });
}
void say(int tried, const char* in) {
    std::cout << "faults: " << tried << " allocations, in " << in << "\n";
    BOOST_TEST(static_cast<std::uint64_t>(tried) * stride > 20u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_allocation_of_a_save_may_fail) {
    for (int const ranks : {1, 2})
        say(fail_saves(ranks), ranks == 1 ? "saves of one rank" : "saves of two ranks");
}

BOOST_AUTO_TEST_CASE(each_allocation_of_a_call_of_async_save_may_fail) {
    say(fail_calls_of_async_save(), "calls of async_save of two ranks");
}

BOOST_AUTO_TEST_CASE(each_allocation_of_a_save_with_kept_plans_may_fail) {
    say(fail_saves_with_kept_plans(2, true), "saves of two ranks that reuse a plan");
    say(fail_saves_with_kept_plans(2, false), "saves of two ranks that keep their plan");
}

BOOST_AUTO_TEST_CASE(each_allocation_of_a_load_may_fail) {
    for (int const ranks : {1, 2})
        say(fail_loads(ranks), ranks == 1 ? "loads of one rank" : "loads of two ranks");
    say(fail_loads(2, true), "loads of two ranks with a data plane");
}

BOOST_AUTO_TEST_SUITE_END()
