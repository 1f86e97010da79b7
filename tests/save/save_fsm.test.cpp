// SPDX-License-Identifier: Apache-2.0
#include <cairn/save/detail/save_fsm.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(save_fsm)

using fsm = cairn::detail::save_fsm;
using step = fsm::step;
using event = fsm::event;
using cairn::save_end;

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
bool has(const std::vector<step>& v, step s) {
    return std::find(v.begin(), v.end(), s) != v.end();
}

bool is_exchange(step s) {
    using enum cairn::detail::save_fsm::step;
    return s == open || s == exchange_plans || s == exchange_global || s == exchange_results ||
           s == exchange_verdict || s == exchange_abandoned;
}
/// All that one rank lived through.
struct history {
    std::vector<std::pair<step, event>> steps{};
    std::vector<bool> may_be_committed{};  ///< In each step.
    save_end end{};
    bool succeeded = false;

    /// How a step ended; `none` where it was not taken.
    static constexpr event none = static_cast<event>(99);
    event of(step s) const {
        for (auto const& [taken, e] : steps)
            if (taken == s) return e;
        return none;
    }
    bool took(step s) const { return of(s) != none; }
};

/// How a step can end, after what came before.
std::vector<event> endings(step s, bool coordinator, const history& h) {
    using enum cairn::detail::save_fsm::step;
    using enum cairn::detail::save_fsm::event;
    auto const failed_at = [&](step at) { return h.of(at) == failed; };
    switch (s) {
        case commit: return {ok, failed, refused, unknown};
        case query: return {ok, failed, unknown};
        case sweep: return {ok};
        case exchange_plans:  // only the coordinator hears of failures in a gather
            if (!coordinator) return {ok, cut_short};
            if (failed_at(plan_local)) return {failed, cut_short};
            return {ok, failed, cut_short};
        case exchange_global:
            if (failed_at(plan_local) || failed_at(exchange_plans) || failed_at(plan_global))
                return {failed, cut_short};
            if (coordinator) return {ok, cut_short};
            return {ok, failed, cut_short};
        case exchange_results:
            if (!coordinator) return {ok, cut_short};
            if (failed_at(stage) || failed_at(write)) return {failed, cut_short};
            return {ok, failed, cut_short};
        case exchange_verdict:
            if (failed_at(stage) || failed_at(write) || failed_at(exchange_results) ||
                h.of(commit) == refused || failed_at(query))
                return {failed, cut_short};
            if (!coordinator) return {ok, failed, cut_short, unknown};
            if (h.of(commit) == unknown || h.of(query) == unknown) return {unknown, cut_short};
            return {ok, cut_short};
        case exchange_abandoned:
            if (failed_at(abandon) && coordinator) return {failed, cut_short};
            return {ok, failed, cut_short};
        case open: return {ok, failed, cut_short};
        default: return {ok, failed};
    }
}

/// Calls `f` with every way in which a save can go on one rank.
template <class F>
int every_history(bool coordinator, F&& f) {
    int n = 0;
    auto const go = [&](auto& self, const fsm& at, history h) -> void {
        if (at.current() == step::done) {
            h.succeeded = at.succeeded();
            ++n;
            return f(h);
        }
        BOOST_REQUIRE(h.steps.size() < 30u);
        if (at.current() == step::sweep) h.end = at.end();
        for (event e : endings(at.current(), coordinator, h)) {
            auto next = at;
            auto longer = h;
            longer.steps.emplace_back(at.current(), e);
            longer.may_be_committed.push_back(at.may_be_committed());
            next.resume(e);
            self(self, next, std::move(longer));
        }
    };
    go(go, fsm(coordinator), {});
    return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_takes_the_steps_in_dcps_order) {
    using enum cairn::detail::save_fsm::step;
    bool ok = false;
    auto const c = run(true, 99, event::ok, &ok);
    BOOST_TEST(ok);
    BOOST_TEST((c == std::vector{open, plan_local, exchange_plans, plan_global, exchange_global,
                                 stage, write, exchange_results, commit, exchange_verdict, sweep}));
    auto const r = run(false, 99, event::ok, &ok);
    BOOST_TEST(ok);
    BOOST_TEST((r == std::vector{open, plan_local, exchange_plans, exchange_global, stage, write,
                                 exchange_results, exchange_verdict}));
}

BOOST_AUTO_TEST_CASE(every_history_of_a_save_keeps_the_rules) {
    int n = 0;
    for (bool coordinator : {true, false}) {
        n += every_history(coordinator, [&](const history& h) {
            using enum cairn::detail::save_fsm::step;
            // A rank that fails takes part in the next exchange.
            for (std::size_t i = 0; i + 1 < h.steps.size(); ++i) {
                auto const [s, e] = h.steps[i];
                if (e == event::failed &&
                    (s == plan_local || s == plan_global || s == stage || s == write))
                    BOOST_TEST(is_exchange(h.steps[i + 1].first));
            }
            // Nothing is written before all agreed, nothing committed before all have written.
            if (h.took(stage)) BOOST_TEST((h.of(exchange_global) == event::ok));
            if (h.took(write)) BOOST_TEST((h.of(stage) == event::ok));
            if (h.took(commit)) BOOST_TEST((coordinator && h.of(exchange_results) == event::ok));
            bool published = false;
            for (auto const s : {commit, query})
                published = published || h.of(s) == event::ok || h.of(s) == event::unknown;
            // A commit that failed is looked for, unless it cannot have happened.
            BOOST_TEST(h.took(query) == (h.of(commit) == event::failed));
            bool const knows_it_stands = h.of(commit) == event::ok || h.of(query) == event::ok ||
                                         h.of(resolve) == event::ok ||
                                         (!coordinator && h.of(exchange_verdict) == event::ok);
            BOOST_TEST(h.succeeded == knows_it_stands);
            // A rank that ends early is in doubt from when it has sent all that a commit needs; the
            // coordinator, only if it may have published.
            bool const own_failed = h.of(stage) == event::failed || h.of(write) == event::failed;
            for (std::size_t i = 0; i < h.steps.size(); ++i) {
                auto const s = h.steps[i].first;
                bool const told = s == exchange_verdict || s == resolve;
                bool const sent = (s == exchange_results || told) && !own_failed;
                bool const may_be =
                    coordinator ? s == commit || s == query || (published && (told || s == sweep))
                                : sent;
                BOOST_TEST(h.may_be_committed[i] == may_be);
            }
            // No file is removed once it may be part of a checkpoint.
            if (h.took(abandon)) {
                BOOST_TEST(!published);
                BOOST_TEST(!h.took(resolve));
                bool const told = h.of(exchange_verdict) == event::failed;
                bool const unsent = !h.took(exchange_results);
                bool const own = h.of(stage) == event::failed || h.of(write) == event::failed;
                BOOST_TEST((coordinator || told || unsent || own));
            }
            if (h.took(resolve))
                BOOST_TEST(!(h.of(stage) == event::failed || h.of(write) == event::failed));
            // Whoever wrote and failed cleans up, or cannot know.
            if (h.took(write) && !h.succeeded) BOOST_TEST((h.took(abandon) || h.took(resolve)));
            // Who is told of the failure says what he has removed.
            BOOST_TEST(h.took(exchange_abandoned) ==
                       (h.of(exchange_verdict) == event::failed && !published));
            // The coordinator sweeps last, when all were told, and only if it knows how it ended.
            if (h.took(sweep)) {
                BOOST_TEST((coordinator && h.steps.back().first == sweep));
                BOOST_TEST((h.end == save_end::committed) == h.succeeded);
                BOOST_TEST((!h.succeeded || h.took(exchange_verdict)));
            }
            if (coordinator && h.succeeded) BOOST_TEST(h.took(sweep));
            if (coordinator && h.took(plan_global) && !(h.of(resolve) == event::failed))
                BOOST_TEST(h.took(sweep));
            // The intent is given up only if nothing can be left.
            if (h.took(sweep) && h.end == save_end::abandoned) {
                BOOST_TEST((h.of(abandon) == event::ok || h.of(exchange_abandoned) == event::ok));
                bool const plans_sent = h.of(plan_global) == event::ok;
                if (plans_sent && h.of(exchange_global) != event::failed)
                    BOOST_TEST((h.of(exchange_abandoned) == event::ok));
            }
        });
    }
    BOOST_TEST(n > 50);
}

BOOST_AUTO_TEST_CASE(a_failing_rank_still_takes_part_in_the_next_exchange) {
    for (bool coordinator : {true, false}) {
        auto const steps = run(coordinator, 1, event::failed);
        BOOST_TEST(has(steps, step::exchange_plans));
        for (std::size_t at : {0u, 1u}) {
            auto const w = run(coordinator, (coordinator ? 5u : 4u) + at, event::failed);
            BOOST_TEST(has(w, step::exchange_results));
            BOOST_TEST(has(w, step::write) == (at == 1u));
        }
    }
}

BOOST_AUTO_TEST_CASE(without_a_verdict_a_prepared_rank_removes_nothing) {
    auto const steps = run(false, 7, event::cut_short);
    BOOST_TEST(has(steps, step::resolve));
    BOOST_TEST(!has(steps, step::abandon));
    auto const results = run(false, 6, event::cut_short);
    BOOST_TEST(has(results, step::resolve));
    BOOST_TEST(!has(results, step::abandon));
}

BOOST_AUTO_TEST_CASE(a_rank_whose_write_failed_needs_no_verdict) {
    using enum cairn::detail::save_fsm::step;
    fsm f(false);
    for (auto e : {event::ok, event::ok, event::ok, event::ok, event::ok, event::failed})
        f.resume(e);
    BOOST_TEST((f.current() == exchange_results));
    auto told_later = f;
    BOOST_TEST((f.resume(event::cut_short) == abandon));
    told_later.resume(event::ok);
    BOOST_TEST((told_later.resume(event::cut_short) == abandon));
    told_later.resume(event::ok);
    BOOST_TEST(!told_later.succeeded());
}

BOOST_AUTO_TEST_CASE(a_commit_that_may_have_happened_removes_nothing) {
    auto const steps = run(true, 8, event::unknown);
    BOOST_TEST(has(steps, step::resolve));
    BOOST_TEST(!has(steps, step::abandon));
}

BOOST_AUTO_TEST_CASE(a_verdict_of_failure_cleans_up) {
    bool ok = true;
    auto const steps = run(false, 7, event::failed, &ok);
    BOOST_TEST(has(steps, step::abandon));
    BOOST_TEST(has(steps, step::exchange_abandoned));
    BOOST_TEST(!ok);
}

BOOST_AUTO_TEST_SUITE_END()
