// SPDX-License-Identifier: Apache-2.0
// Every operation of a store fails in turn, before and after its effect, with whatever a store may
// throw: what stands afterwards is one whole checkpoint, and every rank says so truthfully.
#include "support/fault_store.hpp"
#include "support/meddling_group.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(faults)

namespace {

using support::fault;
using support::told;
using faulty_store = support::fault_store<cairn::memory_store>;

/// What one rank holds: rows of its own, and what all ranks hold alike.
struct state {
    std::vector<float> rows, bias;
    int step = 0;
    cairn::state_dict dict{};

    state(float v, int rank, int ranks) : rows(6, v), bias(3, v + 0.5f), step(static_cast<int>(v)) {
        dict = {
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {2, 3}, rows.data()),
                                       {2 * ranks, 3}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, rank)},
            {"bias", bias},
            {"step", std::ref(step)}};
    }
    bool is(float v) const {
        for (float x : rows)
            if (x != v) return false;
        for (float x : bias)
            if (x != v + 0.5f) return false;
        return step == static_cast<int>(v);
    }
};

constexpr std::chrono::seconds hang{20};  // ends a wait that should not be; no test waits for it

std::vector<told> save(cairn::memory_store base, float v, int ranks, int faulty = -1, fault f = {},
                       faulty_store* used = nullptr) {
    faulty_store bad(base, f);
    if (used != nullptr) *used = bad;
    return support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        state s(v, rank, ranks);
        cairn::save_options o;
        o.exchange_timeout = hang;
        if (rank == faulty)
            cairn::save(s.dict, "c", o, me, bad);
        else
            cairn::save(s.dict, "c", o, me, base);
    });
}

std::set<std::string> names(const cairn::memory_store& base) {
    auto place = base.at("c");
    std::set<std::string> out;
    for (auto const& i : place.list()) out.insert(i.name);
    return out;
}

/// The value of the whole checkpoint that stands there; 0 where none does, less where it is broken.
float standing(const cairn::memory_store& base, int ranks) {
    auto place = base.at("c");
    if (place.tag(".metadata").text.empty()) return 0;
    std::vector<float> seen(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        state s(0, r, ranks);
        auto copy = base;
        try {
            cairn::load(s.dict, "c", copy);
        } catch (const cairn::error&) {
            return -2;
        }
        seen[static_cast<std::size_t>(r)] = s.is(s.rows[0]) ? s.rows[0] : -1;
    }
    for (float v : seen)
        if (v != seen[0]) return -1;
    return seen[0];
}

constexpr float before = 1, saved = 2, later = 3;

/// What must hold after a save of which one operation failed.
void check_save(const cairn::memory_store& base, const std::vector<told>& all, float old,
                int ranks) {
    auto const now = standing(base, ranks);
    BOOST_TEST((now == old || now == saved), "what stands is " << now);
    for (auto const& t : all) {
        BOOST_TEST(!t.raw);
        BOOST_TEST(!t.is(cairn::errc::timed_out));
        if (t.ok()) BOOST_TEST(now == saved);
        if (t.e && !t.is(cairn::errc::outcome_unknown)) BOOST_TEST(now == old);
    }
    // The place is as good as new: a later save works, and what the failed one left is gone.
    auto const again = save(base, later, ranks);
    for (auto const& t : again) BOOST_TEST(t.ok(), support::words(again));
    BOOST_TEST(standing(base, ranks) == later);
    auto const left = names(base);
    std::string list;
    for (auto const& n : left) list += " " + n;
    BOOST_TEST(left.size() == static_cast<std::size_t>(ranks) + 1, "left:" << list);
}

/// Each operation of `faulty` in turn, each kind, before and after.
/// @param old  What stands there before; 0: nothing.
int fail_saves(int ranks, int faulty, float old) {
    int tried = 0;
    for (bool afterwards : {false, true}) {
        for (auto const what : support::all_thrown) {
            for (int at = 0;; ++at) {
                cairn::memory_store base;
                if (old != 0) BOOST_REQUIRE(save(base, old, ranks)[0].ok());
                faulty_store used(base, fault{});
                auto const all = save(base, saved, ranks, faulty, {at, what, afterwards}, &used);
                if (used.hit().empty()) {
                    for (auto const& t : all) BOOST_TEST(t.ok(), support::words(all));
                    break;
                }
                ++tried;
                BOOST_TEST_CONTEXT("rank " << faulty << " of " << ranks << ", operation " << at
                                           << " (" << used.hit() << ") throws " << name_of(what)
                                           << (afterwards ? " afterwards" : "")
                                           << support::words(all)) {
                    check_save(base, all, old, ranks);
                }
            }
        }
    }
    return tried;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_operation_of_a_save_by_one_process) {
    int const tried = fail_saves(1, 0, before) + fail_saves(1, 0, 0);
    std::cout << "faults: " << tried << " in saves of one process\n";
    BOOST_TEST(tried > 100);
}

BOOST_AUTO_TEST_CASE(each_operation_of_a_save_by_three_ranks) {
    int tried = 0;
    for (int faulty : {0, 2}) tried += fail_saves(3, faulty, before);
    tried += fail_saves(3, 0, 0);
    std::cout << "faults: " << tried << " in saves of three ranks\n";
    BOOST_TEST(tried > 200);
}

BOOST_AUTO_TEST_CASE(each_operation_of_a_load) {
    int tried = 0;
    for (int ranks : {1, 3}) {
        cairn::memory_store base;
        BOOST_REQUIRE(save(base, before, ranks)[0].ok());
        for (int faulty : {0, ranks - 1}) {
            for (bool afterwards : {false, true}) {
                for (auto const what : support::all_thrown) {
                    for (int at = 0;; ++at) {
                        faulty_store bad(base, fault{at, what, afterwards});
                        std::atomic<bool> whole{true};
                        auto const load = [&](cairn::thread_group::member& me, int rank) {
                            state s(0, rank, ranks);
                            cairn::load_options o;
                            o.exchange_timeout = hang;
                            if (rank == faulty)
                                cairn::load(s.dict, "c", o, me, bad);
                            else
                                cairn::load(s.dict, "c", o, me, base);
                            if (!s.is(before)) whole = false;
                        };
                        auto const all = support::on_ranks_that_stay(ranks, load);
                        BOOST_TEST_CONTEXT(
                            "rank " << faulty << " of " << ranks << ", operation " << at << " ("
                                    << bad.hit() << ") throws " << name_of(what)
                                    << (afterwards ? " afterwards" : "") << support::words(all)) {
                            BOOST_TEST(whole);
                            for (auto const& t : all) {
                                BOOST_TEST(!t.raw);
                                BOOST_TEST(!t.is(cairn::errc::timed_out));
                                BOOST_TEST(t.ok() == all[0].ok());
                            }
                        }
                        if (bad.hit().empty()) {
                            BOOST_TEST(all[0].ok(), support::words(all));
                            break;
                        }
                        ++tried;
                    }
                }
            }
        }
    }
    std::cout << "faults: " << tried << " in loads\n";
    BOOST_TEST(tried > 50);
}

BOOST_AUTO_TEST_SUITE_END()
