// SPDX-License-Identifier: Apache-2.0
// Every call of a group fails in turn on one rank, by an exception or by its completion, before and
// after its effect, with whatever a group may throw: every rank ends at once, with an error of
// cairn's own or with success, and truthfully; the checkpoint that stood stands, or the new one.
#include "support/fault_group.hpp"
#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"

#include <cairn/async_load.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(group_faults)

namespace {

using support::call_fault;
using support::fault_group;
using support::group_fault;
using support::told;

constexpr int stride = support::stride_if_sanitized(7);
constexpr int ranks = 3;
constexpr float before = 1, saved = 2, later = 3;

/// What one rank does; returns whether it has then what it should.
using job = std::function<bool(fault_group&, int rank, cairn::memory_store)>;

/// How a job ended in which one rank's group failed.
struct ending {
    std::vector<told> all{};
    bool hit = false, whole = true;
    std::string words{}, call{};
};
ending run(const job& what, int faulty, const group_fault& f, const cairn::memory_store& base) {
    ending e;
    std::atomic<bool> whole{true};
    std::vector<std::unique_ptr<fault_group>> groups(ranks);
    e.all = support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        auto& kept = groups[static_cast<std::size_t>(rank)];
        kept = std::make_unique<fault_group>(me, rank == faulty ? f : group_fault{});
        auto& group = *kept;
        auto const note = [&] {
            if (rank != faulty) return;
            e.words = "rank " + std::to_string(rank) + ", " + group.words();
            e.call = group.hit();
            e.hit = !e.call.empty();
        };
        try {
            if (!what(group, rank, base)) whole = false;
        } catch (...) {
            note();
            throw;
        }
        note();
    });
    e.whole = whole;
    return e;
}

/// What the failed call has thrown is told on its rank, as an error of that rank.
bool tells(const cairn::error& e, int rank, const group_fault& f, const std::string& call) {
    auto const text = f.what == support::thrown::bad_alloc ? "out of memory"
                      : f.what == support::thrown::number  ? "an exception of an unknown type"
                                                           : "injected into " + call;
    if (std::string(e.what()).find(text) == std::string::npos) return false;
    if (call == "rank") return true;  // it is not known
    if (e.context().rank == rank) return true;
    for (auto const& one : e.failures())
        if (one.where.rank == rank) return true;
    return false;
}
/// The faulty rank may have found that its save was committed all the same, when another one could
/// not know it yet: then this is told, and whom the other one has lost.
bool tells_doubt_of_others(const cairn::error& e, int rank) {
    for (auto const& one : e.failures())
        if (one.code != make_error_code(cairn::errc::outcome_unknown) || one.where.rank == rank ||
            one.text.find("rank " + std::to_string(rank)) == std::string::npos)
            return false;
    return !e.failures().empty();
}
void check_told(const ending& e, int faulty, const group_fault& f) {
    for (auto const& t : e.all) {
        BOOST_TEST(!t.raw);
        BOOST_TEST_REQUIRE(!t.is(cairn::errc::timed_out));
        if (!e.hit) BOOST_TEST(t.ok());
    }
    auto const& mine = e.all[static_cast<std::size_t>(faulty)];
    if (e.hit && mine.e)
        BOOST_TEST((tells(*mine.e, faulty, f, e.call) || tells_doubt_of_others(*mine.e, faulty)));
}

/// Calls `once(fault, faulty rank)` for each call, kind of exception and way to fail, until it
/// returns that there was no such call. @return how many failed.
int each_fault(const std::function<bool(const group_fault&, int)>& once, int sampled = 1) {
    int tried = 0, offset = 0;
    for (int const faulty : {0, 2})
        for (auto const how : support::all_call_faults)
            for (auto const what : support::all_thrown)
                for (int at = offset++ % (sampled * stride); once({at, what, how}, faulty);
                     at += sampled * stride)
                    ++tried;
    return tried;
}

int fail_saves(const job& save) {
    return each_fault([&](const group_fault& f, int faulty) {
        cairn::memory_store base;
        (void)support::save_on_ranks(before, ranks, [&](int) { return base; });
        auto const e = run(save, faulty, f, base);
        BOOST_TEST_CONTEXT(e.words << support::words(e.all)) {
            check_told(e, faulty, f);
            support::check_save(base, e.all, before, saved, ranks);
            support::check_next_save(base, later, ranks);
        }
        return e.hit;
    });
}
int fail_loads(const job& load) {
    cairn::memory_store base;
    (void)support::save_on_ranks(before, ranks, [&](int) { return base; });
    return each_fault([&](const group_fault& f, int faulty) {
        auto const e = run(load, faulty, f, base);
        BOOST_TEST_CONTEXT(e.words << support::words(e.all)) {
            check_told(e, faulty, f);
            BOOST_TEST(e.whole);
            BOOST_TEST(support::standing(base, ranks) == before);
        }
        return e.hit;
    });
}
void say(int tried, const char* in) {
    std::cout << "faults: " << tried << " calls of a group, in " << in << "\n";
    BOOST_TEST(tried * stride > 50);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_call_of_the_group_of_a_save_may_fail) {
    say(fail_saves([](fault_group& me, int rank, cairn::memory_store store) {
            support::rank_state s(saved, rank, ranks);
            support::save_as(support::verb::blocking, s, me, store);
            return true;
        }),
        "saves");
}

BOOST_AUTO_TEST_CASE(each_call_of_the_group_of_a_save_in_the_background_may_fail) {
    say(fail_saves([](fault_group& me, int rank, cairn::memory_store store) {
            support::rank_state s(saved, rank, ranks);
            support::save_as(support::verb::background, s, me, store);
            return true;
        }),
        "saves in the background");
}

BOOST_AUTO_TEST_CASE(each_call_of_the_group_of_a_load_may_fail) {
    say(fail_loads([](fault_group& me, int rank, cairn::memory_store store) {
            support::rank_state s(0, rank, ranks);
            (void)cairn::load(s.dict, "c", support::patient_load(), me, store);
            return s.is(before);
        }),
        "loads");
    say(fail_loads([](fault_group& me, int, cairn::memory_store store) {
            auto const all = cairn::load_tree("c", {}, support::patient_load(), me, store);
            return all.at("bias").as_tensor().global_shape == cairn::index_vector{3};
        }),
        "loads without a state");
}

BOOST_AUTO_TEST_CASE(each_call_of_the_group_of_a_load_in_the_background_may_fail) {
    say(fail_loads([](fault_group& me, int rank, cairn::memory_store store) {
            support::rank_state s(0, rank, ranks);
            (void)cairn::async_load(s.dict, "c", support::patient_load(), me, store,
                                    boost::asio::use_future)
                .get();
            return s.is(before);
        }),
        "loads in the background");
}

/// All that a checkpointer does together: the save, its end, the search for the newest, the load.
/// Every third call fails, each time one further on.
BOOST_AUTO_TEST_CASE(each_call_of_the_group_of_a_checkpointer_may_fail) {
    auto const train = [](fault_group& me, int rank, cairn::memory_store store) {
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.arena.slab_bytes = std::size_t{1} << 20;
        o.save = support::patient_save();
        o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
        cairn::checkpointer ckpt(me, store, o);
        support::rank_state s(saved, rank, ranks);
        (void)ckpt.save_now(1, s.dict);
        (void)ckpt.wait();
        (void)ckpt.plan(s.dict);
        support::rank_state read(0, rank, ranks);
        return bool(ckpt.load_latest(read.dict, {}, support::patient_load())) && read.is(saved);
    };
    say(each_fault(
            [&](const group_fault& f, int faulty) {
                cairn::memory_store base;
                auto const e = run(train, faulty, f, base);
                BOOST_TEST_CONTEXT(e.words << support::words(e.all)) {
                    check_told(e, faulty, f);
                    BOOST_TEST(e.whole);
                }
                return e.hit;
            },
            3),
        "checkpointers");
}

/// Wherever its group has failed it, and whatever that call had done: with another group all ranks
/// save and load again. Ranks that could not construct one do it then.
BOOST_AUTO_TEST_CASE(a_checkpointer_whose_group_has_failed_goes_on_with_another) {
    std::unique_ptr<cairn::thread_group> next;
    auto const train = [&](fault_group& me, int rank, cairn::memory_store store) {
        cairn::checkpointer_options o{.every = cairn::steps(1), .overlap = true};
        o.arena.slab_bytes = std::size_t{1} << 20;
        o.save = support::patient_save();
        o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
        std::optional<cairn::checkpointer> ckpt;
        support::rank_state s(saved, rank, ranks), newer(later, rank, ranks);
        try {
            ckpt.emplace(me, store, o);
            (void)ckpt->maybe_save(1, s.dict);
            ckpt->before_update();
            (void)ckpt->save_now(2, s.dict);
        } catch (const cairn::error&) {
        }
        auto member = next->rank(rank);
        if (ckpt)
            (void)ckpt->replace_group(member);
        else
            ckpt.emplace(member, store, o);
        if (!ckpt->save_now(3, newer.dict) || !ckpt->wait()) return false;
        support::rank_state read(0, rank, ranks);
        auto const loaded = ckpt->load_latest(read.dict, {}, support::patient_load());
        return loaded && loaded->id == "step_3" && read.is(later);
    };
    say(each_fault(
            [&](const group_fault& f, int faulty) {
                next = std::make_unique<cairn::thread_group>(ranks);
                cairn::memory_store base;
                auto const e = run(train, faulty, f, base);
                BOOST_TEST_CONTEXT(e.words << support::words(e.all)) {
                    for (auto const& t : e.all) BOOST_TEST(t.ok());
                    BOOST_TEST(e.whole);
                }
                return e.hit;
            },
            3),
        "checkpointers that go on");
}

BOOST_AUTO_TEST_SUITE_END()
