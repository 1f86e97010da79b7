// SPDX-License-Identifier: Apache-2.0
// What sinks are told by real saves and loads: in order, to the end, and without harm to them.
#include "archetype/event_sink.hpp"
#include "archetype/shelf.hpp"
#include "archetype/storage_writer.hpp"
#include "recorder.hpp"
#include "save/background_ranks.hpp"
#include "support/fault_store.hpp"
#include "support/on_threads.hpp"
#include "support/scratch.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/load.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/observe/sink_list.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/verb/detail/phases.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(observed_verbs)

using namespace background_ranks;
using kind = recorder::kind;

/// A matrix by rows on some ranks, and a value on all.
struct sharded {
    static constexpr std::int64_t rows = 240, wide = 5000;
    std::vector<std::vector<float>> memory;
    std::vector<cairn::state_dict> dicts;

    explicit sharded(int ranks) {
        for (int r = 0; r < ranks; ++r) {
            auto& m = memory.emplace_back(static_cast<std::size_t>(rows * wide / ranks));
            std::iota(m.begin(), m.end(), float(r) * 1000);
            dicts.push_back(
                {{"w",
                  cairn::shard_by_mesh(
                      cairn::tensor_view(cairn::dtype::f32, {rows / ranks, wide}, m.data()),
                      {rows, wide}, cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, r)},
                 {"step", 7}});
        }
    }
    std::uint64_t bytes_of_rank() const { return memory[0].size() * sizeof(float); }
};

BOOST_AUTO_TEST_CASE(a_save_and_a_load_of_several_ranks_tell_of_each_phase_of_each_rank) {
    cairn::memory_store store;
    recorder saved, loaded;
    {
        sharded s(3);
        cairn::thread_group group(3);
        support::rethrow_first(support::try_on_threads(3, [&](int r) {
            auto ranks = group.rank(r);
            (void)cairn::save(s.dicts[static_cast<std::size_t>(r)], "c", saved, ranks, store);
        }));
        BOOST_TEST(saved.problem() == "");
        BOOST_TEST(saved.phases(0) == "plan, plan for all, stage, write, commit, sweep.");
        BOOST_TEST(saved.phases(1) == "plan, stage, write.");
        BOOST_TEST(saved.phases(2) == "plan, stage, write.");
        for (int r = 0; r < 3; ++r) {
            auto const first = saved.of_rank(r).front();
            BOOST_TEST(first.verb == "save");
            BOOST_TEST(first.id == "c");
            BOOST_TEST(first.ranks == 3);
            auto const w = saved.last(r, "write");
            BOOST_TEST(w.total >= s.bytes_of_rank());
            BOOST_TEST(w.total < s.bytes_of_rank() + 100);  // the value, on one of them
            BOOST_TEST(w.bytes >= w.total);
            BOOST_TEST(w.bytes < w.total + 40'000);  // what the format adds
            BOOST_TEST(w.items >= 1u);
            BOOST_TEST(saved.last(r, "stage").bytes == 0u);  // nothing is copied
        }
    }
    sharded l(2);
    for (auto& m : l.memory) std::fill(m.begin(), m.end(), 0.0f);
    cairn::thread_group group(2);
    support::rethrow_first(support::try_on_threads(2, [&](int r) {
        auto ranks = group.rank(r);
        (void)cairn::load(l.dicts[static_cast<std::size_t>(r)], "c", ranks, loaded, store);
    }));
    BOOST_TEST(loaded.problem() == "");
    BOOST_TEST(loaded.phases(0) == "read metadata, plan, plan for all, plan, read values, read.");
    BOOST_TEST(loaded.phases(1) == "plan, plan, read values, read.");
    for (int r = 0; r < 2; ++r) {
        auto const read = loaded.last(r, "read");
        BOOST_TEST(read.verb == "load");
        BOOST_TEST(read.bytes == l.bytes_of_rank());
        BOOST_TEST(read.total == l.bytes_of_rank());
        auto const values = loaded.last(r, "read values");
        BOOST_TEST(values.bytes == values.total);
        BOOST_TEST(values.items == 1u);
    }
    BOOST_TEST(l.memory[1][0] == 1000.0f + 40 * 5000);  // row 120: of rank 1
}

/// What was asked for counts, not what had to be read for it: columns of rows, in several slabs.
BOOST_AUTO_TEST_CASE(a_load_of_a_part_counts_that_part) {
    cairn::memory_store store;
    std::vector<float> all(4'000'000);
    std::iota(all.begin(), all.end(), 0.0f);
    cairn::state_dict whole{{"w", cairn::tensor_view(cairn::dtype::f32, {2000, 2000}, all.data())}};
    (void)cairn::save(whole, "c", store);
    std::vector<float> columns(2000 * 500);
    cairn::state_dict part{
        {"w", cairn::sharded_view{{2000, 2000},
                                  cairn::dtype::f32,
                                  {cairn::shard(cairn::box({0, 1500}, {2000, 500}),
                                                cairn::tensor_view(cairn::dtype::f32, {2000, 500},
                                                                   columns.data()))}}}};
    recorder r;
    (void)cairn::load(part, "c", store, r);
    BOOST_TEST(columns.back() == all.back());
    BOOST_TEST(r.problem() == "");
    BOOST_TEST(r.last(0, "read").bytes == 4'000'000u);
    BOOST_TEST(r.last(0, "read").total == 4'000'000u);
    std::uint64_t least = 0;
    for (auto const& e : r.all())
        if (e.what == kind::progress && e.bytes != 0 && least == 0) least = e.bytes;
    BOOST_TEST(least == 65'536u);  // a quarter of the first 256 KiB
}

BOOST_AUTO_TEST_CASE(a_background_save_tells_of_its_copy) {
    cairn::memory_store store;
    sharded s(1);
    recorder r;
    auto pending = cairn::async_save(s.dicts[0], "c", r, store, asio::use_future).get();
    BOOST_TEST(outcome_of(pending) == "none");
    BOOST_TEST(r.problem() == "");
    BOOST_TEST(r.phases() == "plan, plan for all, stage, write, commit, sweep.");
    BOOST_TEST(r.all().front().verb == "async_save");
    BOOST_TEST(r.last(0, "stage").bytes == r.last(0, "stage").total);
    BOOST_TEST(r.last(0, "stage").bytes >= s.bytes_of_rank());
    recorder l;
    (void)cairn::async_load(s.dicts[0], "c", l, store, asio::use_future).get();
    BOOST_TEST(l.problem() == "");
    BOOST_TEST(l.all().front().verb == "async_load");
    BOOST_TEST(l.last(0, "read").bytes == s.bytes_of_rank());
}

/// A data plane's turns are phases, with the bytes that are sent.
BOOST_AUTO_TEST_CASE(a_load_that_reads_once_tells_of_its_broadcasts) {
    cairn::memory_store store;
    std::vector<std::vector<float>> memory(2, std::vector<float>(1'000'000, 2.0f));
    cairn::state_dict first{{"w", memory[0]}};
    (void)cairn::save(first, "c", store, cairn::solo());
    recorder r;
    cairn::thread_group group(2);
    support::rethrow_first(support::try_on_threads(2, [&](int rank) {
        auto ranks = group.rank(rank);
        cairn::state_dict sd{{"w", memory[static_cast<std::size_t>(rank)]}};
        cairn::communicator_data_plane plane(ranks);
        cairn::load_options o;
        o.read_once_from = 0;
        (void)cairn::load(sd, "c", o, ranks, plane, store, r);
    }));
    BOOST_TEST(r.problem() == "");
    std::uint64_t sent = 0, read = 0;
    for (auto const& e : r.all()) {
        if (e.what != kind::phase_end) continue;
        BOOST_TEST(e.bytes == e.total);
        (e.phase.find("broadcast") == 0 ? sent : read) += e.bytes;
    }
    BOOST_TEST(sent == 2 * 4'000'000u);  // on two ranks
    BOOST_TEST(read == 4'000'000u);
}

/// A writer of a user's own that reports nothing: its bytes are counted when it has written them.
BOOST_AUTO_TEST_CASE(what_a_writer_does_not_report_is_counted_when_it_is_written) {
    recorder r;
    sharded s(1);
    auto const shelf = std::make_shared<cairn::archetype::shelf>();
    (void)cairn::save(s.dicts[0], "c", cairn::archetype::storage_writer(shelf), r);
    BOOST_TEST(r.problem() == "");
    BOOST_TEST(r.last(0, "write").bytes == r.last(0, "write").total);
    BOOST_TEST(r.last(0, "write").bytes >= s.bytes_of_rank());
}

/// Each operation of the storage fails in turn, on one of two ranks: whatever begins ends.
BOOST_AUTO_TEST_CASE(verbs_that_fail_are_told_to_the_end) {
    std::vector<std::vector<float>> memory(2, std::vector<float>(100));
    for (bool const load : {false, true}) {
        int failures = 0;
        for (int at = 0; at < 40; ++at) {
            cairn::memory_store base;
            cairn::state_dict sd{{"w", memory[0]}, {"step", 1}};
            if (load) (void)cairn::save(sd, "c", base, cairn::solo());
            support::fault_store store(base, {.at = at, .what = support::thrown::number});
            recorder r;
            cairn::thread_group group(2);
            auto const how = support::try_on_threads(2, [&](int rank) {
                auto ranks = group.rank(rank);
                cairn::state_dict own{{"w", memory[static_cast<std::size_t>(rank)]}, {"step", 1}};
                if (load)
                    (void)cairn::load(own, "c", store, ranks, r);
                else
                    (void)cairn::save(own, "c", store, ranks, r);
            });
            BOOST_TEST(r.problem() == "");
            int ends = 0;
            for (auto const& e : r.all()) {
                if (e.what != kind::end) continue;
                ++ends;
                BOOST_TEST(e.failure.empty() == !how[static_cast<std::size_t>(e.rank)]);
            }
            BOOST_TEST(ends == 2);
            if (how[0] || how[1]) ++failures;
        }
        BOOST_TEST(failures > 5);
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_save_is_told_to_the_end) {
    cairn::memory_store base;
    ranks_of_three now(2);
    auto const g = std::make_shared<gate>();
    recorder r;
    std::vector<std::future<cairn::pending_save>> staged;
    for (std::size_t rank = 0; rank < 3; ++rank)
        staged.push_back(cairn::async_save(now.dicts[rank], "c", now.members[rank], r,
                                           gated_store(base, g), asio::use_future));
    std::vector<cairn::pending_save> saves;
    for (auto& s : staged) saves.push_back(s.get());
    BOOST_REQUIRE(g->wait_for(3));
    saves[1].cancel();
    g->let_go();
    for (auto& p : saves) BOOST_TEST(outcome_of(p) == cancelled);
    BOOST_TEST(r.problem() == "");
    for (int rank = 0; rank < 3; ++rank) {
        auto const events = r.of_rank(rank);
        BOOST_TEST((events.back().what == kind::end));
        BOOST_TEST(events.back().failure.find("rank 1") != std::string::npos);
        BOOST_TEST(r.phases(rank).find("clean up") != std::string::npos);
    }
}

/// The user's executor ends in the middle: the events end all the same.
BOOST_AUTO_TEST_CASE(a_save_whose_executor_ends_is_told_to_the_end) {
    cairn::save_options o;
    o.on_unclaimed_error = [](const std::exception_ptr&) {};
    int dropped = 0, ended = 0;
    for (int steps = 0; steps < 30; ++steps) {
        recorder r;
        std::vector<float> w(10);
        cairn::state_dict sd{{"w", w}};
        {
            asio::io_context io(1);
            // The writer's jobs too: nothing runs elsewhere.
            cairn::async_save(
                sd, "c", o, r, cairn::torch_writer(cairn::memory_store(), {}, io.get_executor()),
                io.get_executor(), [](std::exception_ptr, const cairn::pending_save&) {});
            for (int n = 0; n < steps; ++n) io.poll_one();
        }
        // What a writer's thread would have gone on with ends on a thread of the library's.
        auto const by = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (r.problem() == "no end" && std::chrono::steady_clock::now() < by)
            std::this_thread::yield();
        BOOST_TEST(r.problem() == "");
        if (r.all().empty()) continue;
        if (r.all().back().failure.empty())
            ++ended;
        else
            ++dropped;
    }
    BOOST_TEST(dropped > 5);
    BOOST_TEST(ended > 0);
}

/// Throws whatever a user's sink may throw, at every event.
struct thrower {
    int what = 0;
    void notify(const cairn::verb_event&) {
        switch (what) {
            case 0: throw std::runtime_error("no \xff such thing");
            case 1: throw std::bad_alloc();
            case 2: throw cairn::error(cairn::errc::cancelled, {});
            default: throw 42;
        }
    }
};
/// What `f` prints on standard error.
template <class F>
std::string printed(F&& f) {
    support::scratch const at;
    auto const file = (at.dir / "stderr").string();
    (void)std::fflush(stderr);
    int const before = ::dup(2);
    int const to = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ::dup2(to, 2);
    f();
    (void)std::fflush(stderr);
    ::dup2(before, 2);
    ::close(before);
    ::close(to);
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}
int lines_in(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

BOOST_AUTO_TEST_CASE(a_sink_that_throws_harms_nothing) {
    for (int what = 0; what < 4; ++what) {
        cairn::memory_store store;
        sharded s(1);
        recorder before, after;
        auto text = printed(
            [&] { (void)cairn::save(s.dicts[0], "c", before, thrower{what}, after, store); });
        BOOST_TEST(lines_in(text) == 1, text);
        BOOST_TEST(text.find("cairn: rank 0: an event sink failed in the save 'c'") == 0u);
        text = printed([&] { (void)cairn::load(s.dicts[0], "c", thrower{what}, after, store); });
        BOOST_TEST(lines_in(text) == 1, text);
        text = printed([&] {
            auto p = cairn::async_save(s.dicts[0], "d", thrower{what}, after, store, thrower{what},
                                       asio::use_future)
                         .get();
            BOOST_TEST(outcome_of(p) == "none");
        });
        BOOST_TEST(lines_in(text) == 2, text);  // each of them
        BOOST_TEST(before.problem() == "");
        BOOST_TEST(after.problem() == "");
        BOOST_TEST(after.all().size() > before.all().size());
        (void)support::load_whole(store, "c");
        (void)support::load_whole(store, "d");
    }
}

/// Copies, of whatever was passed, that are released before the verb completes.
BOOST_AUTO_TEST_CASE(sinks_are_copied_and_released) {
    cairn::memory_store store;
    sharded s(1);
    auto const events = std::make_shared<std::atomic<int>>(0);
    cairn::archetype::event_sink const sink(events);
    (void)cairn::save(s.dicts[0], "c", sink, cairn::archetype::event_sink(events), store);
    BOOST_TEST(events.use_count() == 2);
    int const of_two = *events;
    BOOST_TEST(of_two % 2 == 0);
    BOOST_TEST(of_two > 20);
    std::future<cairn::pending_save> staged;
    {
        auto borrowed = sink;  // gone before the save ends
        staged = cairn::async_save(s.dicts[0], "d", borrowed, store, asio::use_future);
    }
    auto pending = staged.get();
    BOOST_TEST(outcome_of(pending) == "none");
    int const of_three = *events;
    BOOST_TEST(of_three > of_two + 10);
    (void)cairn::load_tree("d", cairn::load_tree_options{}, sink, store);
    BOOST_TEST(*events > of_three + 10);
    cairn::sink_list none;
    (void)cairn::load(s.dicts[0], "d", none, store);
}

/// A part may keep the activity after its operation, and report to it.
BOOST_AUTO_TEST_CASE(what_is_reported_too_late_is_dropped) {
    recorder r;
    cairn::detail::erased_sinks sinks;
    cairn::detail::add_sink(sinks, r);
    std::shared_ptr<cairn::activity> kept;
    {
        cairn::detail::phase_clock c(sinks);
        kept = c.activity();
        kept->advance(1);
        c.begin("save", "c", 0, 1);
        kept->advance(2);
        c.enter("write");
        kept->advance(3);
        c.stop();
        kept->advance(4);
        c.enter("commit");
        kept->advance(5);
        c.end(nullptr);
        kept->advance(6);
    }
    kept->advance(7);
    BOOST_TEST(r.problem() == "");
    BOOST_TEST(r.last(0, "write").bytes == 3u);
    BOOST_TEST(r.last(0, "commit").bytes == 5u);
    BOOST_TEST(r.all().size() == 8u);
}

BOOST_AUTO_TEST_SUITE_END()
