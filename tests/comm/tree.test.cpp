// SPDX-License-Identifier: Apache-2.0
// The exchanges of a group of processes, without processes: every decision, in simulated time.
#include "support/error_codes.hpp"
#include "support/tree_world.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(tree)

using cairn::errc;
using cairn::message;
using kind = cairn::detail::exchange_kind;
using support::is;
using support::tree_world;
using namespace std::chrono_literals;

namespace {

message text(const std::string& s) {
    auto const b = std::as_bytes(std::span(s.data(), s.size()));
    return {b.begin(), b.end()};
}
std::vector<message> one(message m) {
    std::vector<message> v;
    v.push_back(std::move(m));
    return v;
}
bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
message of(int rank, int round) {
    return text(std::to_string(rank) + "/" + std::to_string(round) +
                std::string(static_cast<std::size_t>(rank % 7), 'x'));
}

/// One exchange on every rank, in an order of calls that the round decides.
void exchange(tree_world& w, kind k, int root, int round) {
    int const n = w.size();
    for (int i = 0; i < n; ++i) {
        int const r = (i * 7 + round) % n;
        std::vector<message> in;
        if (k == kind::scatter) {
            if (r == root)
                for (int to = 0; to < n; ++to) in.push_back(of(to, round));
        } else if (k != kind::duplicate) {
            in.push_back(of(r, round));
        }
        w.call(r, k, root, std::move(in));
        if (i % 3 == 0) w.settle();
    }
    w.settle();
    std::vector<message> all;
    for (int r = 0; r < n; ++r) all.push_back(of(r, round));
    for (int r = 0; r < n; ++r) {
        auto const& o = w.outcome_of(r);
        BOOST_REQUIRE(o.has_value());
        std::string what;
        BOOST_REQUIRE_MESSAGE(!w.code_of(r, &what), what);
        auto const want = [&]() -> std::vector<message> {
            switch (k) {
                case kind::gather: return r == root ? all : std::vector<message>();
                case kind::scatter: return one(of(r, round));
                case kind::broadcast: return one(of(root, round));
                case kind::all_gather: return all;
                default: return {};
            }
        }();
        BOOST_TEST((o->result == want), "rank " << r << " of " << n);
    }
}

/// One rank in a broadcast of nothing.
void meet(tree_world& w, int rank, std::chrono::milliseconds timeout = 0ms) {
    w.call(rank, kind::broadcast, 0, one({}), timeout);
}
/// All ranks in one but those that `absent` names.
void meet_without(tree_world& w, std::set<int> absent, std::chrono::milliseconds timeout) {
    for (int r = 0; r < w.size(); ++r)
        if (absent.count(r) == 0) meet(w, r, timeout);
    w.settle();
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_rank_but_the_first_is_the_child_of_one_other) {
    for (int fan_in : {1, 2, 3, 32}) {
        for (int n : {1, 2, 33, 100}) {
            std::vector<int> seen(static_cast<std::size_t>(n));
            for (int r = 0; r < n; ++r) {
                cairn::detail::tree_topology const t{r, n, fan_in};
                BOOST_TEST(static_cast<int>(t.children().size()) <= fan_in);
                for (int c : t.children()) {
                    BOOST_TEST((cairn::detail::tree_topology{c, n, fan_in}.parent()) == r);
                    BOOST_TEST(t.towards(c) == c);
                    ++seen[static_cast<std::size_t>(c)];
                }
                BOOST_TEST(t.towards(r) == -1);
            }
            for (int r = 1; r < n; ++r) BOOST_TEST(seen[static_cast<std::size_t>(r)] == 1);
        }
    }
}

BOOST_AUTO_TEST_CASE(exchanges_of_every_kind_work_in_any_order_of_delivery) {
    int exchanges = 0;
    for (int n : {1, 2, 5, 40}) {
        for (unsigned seed = 0; seed < 5; ++seed) {
            tree_world w(n, 3, seed);
            int round = 0;
            for (auto k :
                 {kind::gather, kind::scatter, kind::broadcast, kind::all_gather, kind::duplicate})
                for (int root : {0, n / 2, n - 1}) {
                    exchange(w, k, root, round++);
                    ++exchanges;
                }
        }
    }
    BOOST_TEST_MESSAGE("    " << exchanges << " exchanges");
}

BOOST_AUTO_TEST_CASE(a_rank_that_dies_is_named_on_all) {
    for (int n : {2, 5, 40}) {
        for (int dead : {0, 1, n / 2, n - 1}) {
            for (bool const in_call : {false, true}) {
                tree_world w(n);
                exchange(w, kind::duplicate, 0, 0);
                if (in_call) meet_without(w, {dead}, 0ms);
                w.kill(dead);
                w.settle();
                if (!in_call) meet_without(w, {dead}, 0ms);
                for (int r = 0; r < n; ++r) {
                    if (r == dead) continue;
                    std::string what;
                    BOOST_TEST(is(w.code_of(r, &what), errc::rank_failed), what);
                    BOOST_TEST(contains(what, "rank " + std::to_string(dead) + " is gone"), what);
                    meet(w, r);
                    BOOST_TEST(is(w.code_of(r), errc::poisoned));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_late_rank_is_named_on_all) {
    for (int n : {2, 5, 40}) {
        for (int late : {0, 1, n / 2, n - 1}) {
            tree_world w(n);
            meet_without(w, {late}, 500ms);
            w.pass(400ms);
            for (int r = 0; r < n; ++r) BOOST_TEST(!w.code_of(r));
            w.pass(200ms);
            for (int r = 0; r < n; ++r) {
                if (r == late) meet(w, r, 500ms);
                std::string what;
                BOOST_TEST(is(w.code_of(r, &what), r == late ? errc::poisoned : errc::timed_out),
                           what);
                BOOST_TEST(contains(what, "rank " + std::to_string(late) + " did not arrive"),
                           what);
                if (late + 1 < n)
                    BOOST_TEST(!contains(what, "rank " + std::to_string(late + 1) + " "), what);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_works_on_is_waited_for) {
    for (int late : {0, 1, 39}) {
        tree_world w(40);
        auto const doing = std::make_shared<cairn::activity>();
        w.at(late).share(tree_world::first_lane, doing);
        doing->enter("write");  // its clock is the real one: idle for next to nothing
        meet_without(w, {late}, 60s);
        w.pass(200s);
        for (int r = 0; r < 40; ++r) BOOST_TEST(!w.outcome_of(r).has_value());
        meet(w, late);
        w.settle();
        for (int r = 0; r < 40; ++r) BOOST_TEST((w.outcome_of(r) && !w.code_of(r)));
    }
    using cairn::detail::missing_rank;
    using cairn::detail::worth_waiting;
    std::vector<missing_rank> two{{1, true, "write", 9000, 100}, {2, true, "write", 8000, 300}};
    BOOST_TEST((worth_waiting(two, 1000ms) == 700ms));
    two[0].idle = 1000;
    BOOST_TEST((worth_waiting(two, 1000ms) == 0ms));
    two[0] = {1, false, {}, 0, 0};
    BOOST_TEST((worth_waiting(two, 1000ms) == 0ms));
    BOOST_TEST(cairn::detail::describe(two) ==
               "rank 1 does not answer, rank 2 did not arrive (in write for 8.0 s)");
}

BOOST_AUTO_TEST_CASE(a_rank_that_stands_still_is_named_on_all) {
    for (int n : {2, 5, 40}) {
        for (int still : {0, 1, n / 2, n - 1}) {
            tree_world w(n);
            w.stop(still);
            meet_without(w, {still}, 500ms);
            // Deadline, judgement, and no more.
            w.pass(4500ms);
            for (int r = 0; r < n; ++r) {
                if (r == still) continue;
                std::string what;
                BOOST_TEST(w.code_of(r, &what).failed());
                BOOST_TEST(contains(what, "rank " + std::to_string(still) + " does not answer"),
                           "n " << n << " rank " << r << ": " << what);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(silence_is_noticed_without_a_deadline) {
    for (int still : {0, 1, 39}) {
        tree_world w(40);
        meet_without(w, {still}, 0ms);
        w.pass(60s);  // beats keep everybody alive
        BOOST_TEST(!w.code_of(2));
        w.stop(still);
        w.pass(12s);
        for (int r = 0; r < 40; ++r) {
            if (r == still) continue;
            std::string what;
            BOOST_TEST(is(w.code_of(r, &what), errc::rank_failed));
            BOOST_TEST(contains(what, "rank " + std::to_string(still) + ": "), what);
            BOOST_TEST(contains(what, "nothing received from it for 10 s"), what);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_call_ends_for_all) {
    tree_world w(5);
    meet_without(w, {3}, 0ms);
    w.cancel(2);
    w.pass(10ms);
    for (int r : {0, 1, 2, 4}) BOOST_TEST(is(w.code_of(r), errc::cancelled));
    for (auto want : {errc::cancelled, errc::poisoned}) {
        meet(w, 3);
        BOOST_TEST(is(w.code_of(3), want));
    }
}

BOOST_AUTO_TEST_CASE(a_group_that_was_cancelled_before_the_call_fails_it) {
    tree_world w(3);
    w.cancel(1);
    w.settle();
    for (auto want : {errc::cancelled, errc::poisoned})
        for (int r : {1, 0, 2}) {
            meet(w, r);
            BOOST_TEST(is(w.code_of(r), want), "rank " << r);
        }
}

/// No deadline passes while bytes of a long message move, on whichever connection, in whichever
/// direction; it does when they stop.
BOOST_AUTO_TEST_CASE(a_long_message_is_waited_for_as_long_as_it_moves) {
    for (int n : {2, 6}) {
        for (int child = 1; child < n; ++child) {
            int const parent = cairn::detail::tree_topology{child, n, 2}.parent();
            for (bool const up : {true, false}) {
                for (bool const moves : {true, false}) {
                    tree_world w(n, 2);
                    exchange(w, kind::gather, 0, 0);
                    auto const [from, to] =
                        up ? std::pair(child, parent) : std::pair(parent, child);
                    w.hold(from, to, moves);
                    std::vector<int> calls(static_cast<std::size_t>(n), 1);
                    meet_without(w, {}, 500ms);
                    // Whoever's call has ended makes the next one, up to the second.
                    auto const go_on = [&] {
                        for (int r = 0; r < n; ++r) {
                            auto& c = calls[static_cast<std::size_t>(r)];
                            if (c == 2 || !w.outcome_of(r) || w.code_of(r)) continue;
                            ++c;
                            meet(w, r, 500ms);
                        }
                    };
                    w.pass(8s);
                    go_on();
                    w.pass(8s);
                    int failed = 0;
                    for (int r = 0; r < n; ++r) failed += w.code_of(r).failed();
                    BOOST_TEST((failed == 0) == moves, "n " << n << ", " << from << " to " << to
                                                            << ": " << failed << " failed");
                    if (!moves) continue;
                    w.release(from, to);
                    w.settle();
                    go_on();
                    w.settle();
                    for (int r = 0; r < n; ++r) {
                        std::string what = "no end";
                        BOOST_TEST((!w.code_of(r, &what) && w.outcome_of(r)),
                                   "n " << n << ", " << from << " to " << to << ": rank " << r
                                        << ": " << what);
                        BOOST_TEST(calls[static_cast<std::size_t>(r)] == 2);
                    }
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_long_reason_is_cut) {
    tree_world w(5, 2);
    meet_without(w, {3}, 0ms);
    w.at(1).lost(4, "rank 4: " + std::string(3'000'000, 'x'), {});
    w.cancel(1);  // collects
    w.settle();
    for (int r : {0, 2}) {
        std::string what;
        BOOST_TEST(is(w.code_of(r, &what), errc::rank_failed), what.substr(0, 200));
        BOOST_TEST(what.size() < 10'000u);
    }
}

BOOST_AUTO_TEST_CASE(among_many_missing_ranks_the_stuck_one_is_not_forgotten) {
    std::vector<cairn::detail::missing_rank> all;
    for (int r = 0; r < 200; ++r) all.push_back({r, true, "write", 1000, 10});
    all.push_back({200, true, "plan", 90000, 90000});
    auto const told = cairn::detail::decode_missing(cairn::detail::encode_missing(all));
    BOOST_TEST(told.size() == 64u);
    BOOST_TEST((cairn::detail::worth_waiting(told, 1000ms) == 0ms));
}

BOOST_AUTO_TEST_CASE(different_calls_fail_on_all) {
    for (int odd : {0, 1, 4, 12}) {
        tree_world w(13);
        for (int r = 0; r < 13; ++r) {
            if (r == odd)
                w.call(r, kind::broadcast, 0, one(text("x")));
            else
                w.call(r, kind::gather, 0, one({}));
            w.settle();
        }
        for (int r = 0; r < 13; ++r) {
            std::string what;
            BOOST_TEST(w.code_of(r, &what).failed());
            BOOST_TEST((contains(what, "broadcast") && contains(what, "gather")), what);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named) {
    tree_world w(5);
    exchange(w, kind::all_gather, 0, 0);
    w.leave(4);
    meet_without(w, {4}, 0ms);
    w.pass(10ms);
    for (int r = 0; r < 4; ++r) {
        std::string what;
        BOOST_TEST(is(w.code_of(r, &what), errc::rank_failed));
        BOOST_TEST(contains(what, "rank 4 left the group"), what);
    }
}

BOOST_AUTO_TEST_SUITE_END()
