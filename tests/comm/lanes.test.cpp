// SPDX-License-Identifier: Apache-2.0
// Duplicates of a group, over the same connections: independent of each other, and forgotten when
// they end.
#include "support/allocations.hpp"
#include "support/error_codes.hpp"
#include "support/tree_world.hpp"

#include <cairn/comm/thread_group.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(lanes)

using cairn::errc;
using cairn::message;
using kind = cairn::detail::exchange_kind;
using support::is;
using support::tree_world;
using namespace std::chrono_literals;

namespace {

std::vector<message> one(message m) {
    std::vector<message> v;
    v.push_back(std::move(m));
    return v;
}
/// A broadcast of nothing on a lane, by all ranks.
void meet(tree_world& w, std::uint64_t lane) {
    for (int r = 0; r < w.size(); ++r) w.call_on(lane, r, kind::broadcast, 0, one({}));
    w.settle();
}
bool all_well(tree_world& w) {
    for (int r = 0; r < w.size(); ++r)
        if (!w.outcome_of(r) || w.outcome_of(r)->failure) return false;
    return true;
}
/// The number of a new lane.
std::uint64_t duplicate(tree_world& w, std::uint64_t lane) {
    for (int r = 0; r < w.size(); ++r) w.call_on(lane, r, kind::duplicate, 0, {});
    w.settle();
    BOOST_REQUIRE(all_well(w));
    for (int r = 0; r < w.size(); ++r)
        BOOST_REQUIRE(w.outcome_of(r)->lane == w.outcome_of(0)->lane);
    return w.outcome_of(0)->lane;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_lane_has_a_number_of_its_own) {
    for (int n : {1, 2, 13}) {
        tree_world w(n);
        std::set<std::uint64_t> seen{tree_world::first_lane};
        std::vector<std::uint64_t> all{tree_world::first_lane};
        for (int i = 0; i < 50; ++i) {
            all.push_back(duplicate(w, all[all.size() / 2]));
            BOOST_TEST(seen.insert(all.back()).second);
        }
        for (auto const lane : all) {
            meet(w, lane);
            BOOST_TEST(all_well(w));
        }
    }
}

/// Ranks use two lanes in different orders, in any order of delivery.
BOOST_AUTO_TEST_CASE(lanes_do_not_wait_for_each_other) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        tree_world w(7, 2, seed);
        auto const second = duplicate(w, tree_world::first_lane);
        auto const call = [&](int r, std::uint64_t lane, std::size_t bytes) {
            auto const mine = bytes + static_cast<std::size_t>(r);
            w.call_on(lane, r, kind::all_gather, 0, one(message(mine)));
        };
        auto const done = [&](int r, std::size_t bytes) {
            return w.outcome_of(r) && !w.outcome_of(r)->failure &&
                   w.outcome_of(r)->result.at(6).size() == bytes + 6;
        };
        // All but rank 3 are in the first; the second goes on without waiting for it.
        for (int r = 0; r < 7; ++r)
            if (r != 3) call(r, tree_world::first_lane, 100);
        w.settle();
        for (int r = 0; r < 7; ++r) call(r, second, 200);
        w.settle();
        for (int r = 0; r < 7; ++r) BOOST_TEST(done(r, 200));
        call(3, tree_world::first_lane, 100);
        w.settle();
        for (int r = 0; r < 7; ++r) BOOST_TEST(done(r, 100));
    }
}

BOOST_AUTO_TEST_CASE(a_broken_lane_leaves_the_others_as_they_are) {
    tree_world w(5, 2);
    auto const second = duplicate(w, tree_world::first_lane);
    auto const third = duplicate(w, second);
    w.at(3).cancel(second, {});
    w.cancel(3);  // the first; collects both
    w.settle();
    meet(w, third);
    BOOST_TEST(all_well(w));
    for (auto const lane : {tree_world::first_lane, second}) {
        meet(w, lane);
        for (int r = 0; r < 5; ++r) BOOST_TEST(is(w.code_of(r), errc::cancelled));
    }
    // The parent's end is not the child's.
    for (int r = 0; r < 5; ++r) w.leave(r, second);
    w.settle();
    meet(w, third);
    BOOST_TEST(all_well(w));
    // A rank that is gone is gone from all.
    w.kill(4);
    w.settle();
    for (int r = 0; r < 4; ++r) w.call_on(third, r, kind::broadcast, 0, one({}));
    for (int r = 0; r < 4; ++r) BOOST_TEST(is(w.code_of(r), errc::rank_failed));
}

BOOST_AUTO_TEST_CASE(lanes_that_have_ended_are_forgotten) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        tree_world w(7, 2, seed);
        for (int i = 0; i < 20; ++i) {
            auto const lane = duplicate(w, tree_world::first_lane);
            bool const deliver_late = i % 2 == 0;
            for (int r = 0; r < 7; ++r) {
                // Frames for those that have left already are on their way.
                int const rank = (r + i) % 7;
                if (r == 3) w.call_on(lane, rank, kind::gather, 0, one(message(10)));
                w.leave(rank, lane);
                if (!deliver_late) w.settle();
            }
            w.settle();
        }
        for (int r = 0; r < 7; ++r) BOOST_TEST(w.at(r).remembered() == 1u);
        meet(w, tree_world::first_lane);
        BOOST_TEST(all_well(w));
    }
}

BOOST_AUTO_TEST_CASE(duplicate_is_an_exchange_like_others) {
    {
        tree_world w(4);
        for (int r = 0; r < 4; ++r)
            w.call(r, r == 2 ? kind::duplicate : kind::broadcast, 0,
                   r == 2 ? std::vector<message>() : one({}));
        w.settle();
        for (int r = 0; r < 4; ++r) {
            std::string what;
            BOOST_TEST(is(w.code_of(r, &what), errc::invalid_argument));
            BOOST_TEST(what.find("rank 2 in duplicate") != what.npos, what);
        }
    }
    tree_world w(4);
    for (int r = 0; r < 4; ++r)
        if (r != 2) w.call(r, kind::duplicate, 0, {}, 300ms);
    w.pass(2s);
    for (int r : {0, 1, 3}) {
        std::string what;
        BOOST_TEST(is(w.code_of(r, &what), errc::timed_out));
        BOOST_TEST(what.find("rank 2 did not arrive") != what.npos, what);
    }
}

BOOST_AUTO_TEST_CASE(frames_of_no_lane_are_foreign) {
    tree_world w(3);
    cairn::detail::tree_frame f;
    f.lane = 4711;
    w.at(0).received(1, f, {});
    meet(w, tree_world::first_lane);
    std::string what;
    BOOST_TEST(is(w.code_of(0, &what), errc::rank_failed));
    BOOST_TEST(what.find("a message of another group") != what.npos, what);
}

/// A rank ends a lane while the result of its duplicate is on its way to it or, with the last two
/// shapes, to the rank above: the ranks that have the new lane learn that others do not.
BOOST_AUTO_TEST_CASE(a_lane_that_ends_as_it_is_duplicated_leaves_the_others_as_they_are) {
    struct shape {
        int ranks, fan_in, ends;
    };
    for (auto const& [ranks, fan_in, ends] : {shape{2, 3, 1}, shape{3, 1, 2}, shape{7, 2, 4}})
        for (bool const leaves : {false, true})
            for (unsigned seed = 0; seed < 10; ++seed) {
                tree_world w(ranks, fan_in, seed);
                auto const other = duplicate(w, tree_world::first_lane);
                w.hold(0, 1, false);
                for (int r = 0; r < ranks; ++r)
                    w.call_on(tree_world::first_lane, r, kind::duplicate, 0, {});
                w.settle();
                if (leaves)
                    w.leave(ends);
                else
                    w.cancel(ends);
                w.settle();
                w.release(0, 1);
                w.pass(3s);  // heartbeats on the new lane
                std::vector<int> with_it;
                BOOST_REQUIRE((w.outcome_of(0) && !w.outcome_of(0)->failure));
                auto const lane = w.outcome_of(0)->lane;
                for (int r = 0; r < ranks; ++r)
                    if (w.outcome_of(r) && !w.outcome_of(r)->failure) with_it.push_back(r);
                BOOST_TEST(int(with_it.size()) == (ranks == 7 ? 4 : 1));
                for (int r : with_it) {
                    std::string what;
                    w.call_on(lane, r, kind::broadcast, 0, one({}));
                    BOOST_TEST(is(w.code_of(r, &what), errc::rank_failed));
                    BOOST_TEST(what.find("rank 1 left the group") != what.npos, what);
                }
                meet(w, other);
                BOOST_TEST(all_well(w));
                for (int r : with_it) w.leave(r, lane);
                for (int r = 0; r < ranks; ++r)
                    if (!leaves || r != ends) w.leave(r);
                w.settle();
                for (int r = 0; r < ranks; ++r) BOOST_TEST(w.at(r).remembered() == 1u);
            }
}

/// Threads: the group that a duplicate was made of may end while that is under way.
BOOST_AUTO_TEST_CASE(a_group_may_end_while_it_is_duplicated) {
    cairn::thread_group g(2);
    std::optional<cairn::thread_group::member> zero(g.rank(0)), one_(g.rank(1)), copy;
    std::string said;
    cairn::completion<cairn::thread_group::member> done([&](std::exception_ptr e, auto m) {
        copy = std::move(m);
        try {
            if (e) std::rethrow_exception(e);
        } catch (const cairn::error& x) {
            said = x.what();
        }
    });
    zero->duplicate(cairn::no_deadline, std::move(done));
    zero.reset();
    BOOST_TEST(!copy.has_value());
    BOOST_TEST(said.find("left the group") != said.npos, said);
}

namespace {

/// What a rank of a group of threads gets of a duplicate, or of a broadcast; both may come later.
struct gotten {
    using member = cairn::thread_group::member;
    std::optional<member> lane{};
    std::optional<cairn::error_code> code{};

    void duplicate(member& of) {
        of.duplicate(cairn::no_deadline, cairn::completion<member>([this](auto e, auto m) {
                         lane = std::move(m);
                         note(e);
                     }));
    }
    void broadcast(member& of) {
        of.broadcast({}, 0, cairn::no_deadline,
                     cairn::completion<message>([this](auto e, auto) { note(e); }));
    }
    bool ok() const { return code && !*code; }

private:
    void note(const std::exception_ptr& e) {
        code.emplace();
        try {
            if (e) std::rethrow_exception(e);
        } catch (const cairn::error& x) {
            code = x.code();
        } catch (const std::bad_alloc&) {
            code = make_error_code(boost::system::errc::not_enough_memory);
        }
    }
};

}  // namespace

/// A rank that has no memory for a duplicate leaves it, for the others have one: they do not wait
/// on it, and what it was made of stays as it is.
BOOST_AUTO_TEST_CASE(a_lane_that_a_rank_cannot_open_is_left_there) {
    using support::failing_allocation;
    int left = 0;
    bool hit = true;
    for (std::uint64_t nth = 0; hit; ++nth) {
        gotten by_0, by_1, told, later_0, later_1;
        cairn::thread_group group(2);
        auto zero = group.rank(0), one_ = group.rank(1);
        by_0.duplicate(zero);
        {
            failing_allocation const fails(failing_allocation::of::this_thread, nth);
            try {
                by_1.duplicate(one_);
            } catch (const std::bad_alloc&) {
            }
            hit = fails.hit();
        }
        if (!hit) BOOST_TEST((by_0.ok() && by_1.ok()));
        if (!by_0.lane || by_1.lane) continue;
        told.broadcast(*by_0.lane);
        BOOST_TEST_REQUIRE(bool(told.code), "allocation " << nth);
        BOOST_TEST(is(*told.code, errc::rank_failed));
        // Unless the rank could do nothing any more, the group is as good as before.
        later_1.broadcast(one_);
        later_0.broadcast(zero);
        if (later_0.ok() && later_1.ok()) ++left;
    }
    BOOST_TEST(left > 0);
}

BOOST_AUTO_TEST_SUITE_END()
