// SPDX-License-Identifier: Apache-2.0
#include <cairn/save/save_fsm.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

BOOST_AUTO_TEST_SUITE(save_fsm)

using fsm = cairn::detail::save_fsm;
using step = fsm::step;
using event = fsm::event;

namespace {

/// The steps taken when the n-th one ends with `e` and all others well.
std::vector<step> run(bool coordinator, std::size_t n, event e, bool* succeeded = nullptr) {
    fsm f(coordinator);
    std::vector<step> taken;
    while (f.current() != step::done && taken.size() < 50) {
        taken.push_back(f.current());
        f.resume(taken.size() - 1 == n ? e : event::ok);
    }
    if (succeeded != nullptr) *succeeded = f.succeeded();
    return taken;
}
bool has(const std::vector<step>& v, step s) { return std::find(v.begin(), v.end(), s) != v.end(); }

}  // namespace

BOOST_AUTO_TEST_CASE(takes_the_steps_in_dcps_order) {
    using enum cairn::detail::save_fsm::step;
    bool ok = false;
    auto const c = run(true, 99, event::ok, &ok);
    BOOST_TEST(ok);
    BOOST_TEST((c == std::vector{open, plan_local, exchange_plans, plan_global, exchange_global,
                                 write, exchange_results, commit, exchange_verdict}));
    auto const r = run(false, 99, event::ok, &ok);
    BOOST_TEST(ok);
    BOOST_TEST((r == std::vector{open, plan_local, exchange_plans, exchange_global, write,
                                 exchange_results, exchange_verdict}));
}

BOOST_AUTO_TEST_CASE(a_failing_rank_still_takes_part_in_the_next_exchange) {
    for (bool coordinator : {true, false}) {
        auto const steps = run(coordinator, 1, event::failed);
        BOOST_TEST(has(steps, step::exchange_plans));
        auto const w = run(coordinator, coordinator ? 5u : 4u, event::failed);
        BOOST_TEST(has(w, step::exchange_results));
    }
}

BOOST_AUTO_TEST_CASE(nothing_is_written_or_committed_after_a_failed_agreement) {
    for (bool coordinator : {true, false}) {
        std::size_t const n = run(coordinator, 99, event::ok).size();
        for (std::size_t i = 0; i < n; ++i) {
            for (event e : {event::failed, event::cut_short}) {
                fsm f(coordinator);
                std::vector<step> taken;
                bool agreed_failure = false;
                bool ok = false;
                while (f.current() != step::done && taken.size() < 50) {
                    auto const s = f.current();
                    if (agreed_failure) {
                        BOOST_TEST((s != step::write));
                        BOOST_TEST((s != step::commit));
                    }
                    bool const exchange = s == step::exchange_plans || s == step::exchange_global ||
                                          s == step::exchange_results;
                    taken.push_back(s);
                    bool const here = taken.size() - 1 == i;
                    if (here && exchange) agreed_failure = true;
                    // Once agreed, every later exchange repeats the failure.
                    bool const told = agreed_failure && (exchange || s == step::exchange_verdict);
                    f.resume(here ? e : told ? event::failed : event::ok);
                }
                ok = f.succeeded();
                BOOST_TEST(taken.size() < 50u);
                if (agreed_failure && coordinator) BOOST_TEST(!ok);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(without_a_verdict_a_prepared_rank_removes_nothing) {
    auto const steps = run(false, 6, event::cut_short);
    BOOST_TEST(has(steps, step::resolve));
    BOOST_TEST(!has(steps, step::abandon));
    auto const results = run(false, 5, event::cut_short);
    BOOST_TEST(has(results, step::resolve));
    BOOST_TEST(!has(results, step::abandon));
}

BOOST_AUTO_TEST_CASE(a_commit_that_may_have_happened_removes_nothing) {
    auto const steps = run(true, 7, event::unknown);
    BOOST_TEST(has(steps, step::resolve));
    BOOST_TEST(!has(steps, step::abandon));
}

BOOST_AUTO_TEST_CASE(a_verdict_of_failure_cleans_up) {
    bool ok = true;
    auto const steps = run(false, 6, event::failed, &ok);
    BOOST_TEST(has(steps, step::abandon));
    BOOST_TEST(!ok);
}

BOOST_AUTO_TEST_SUITE_END()
