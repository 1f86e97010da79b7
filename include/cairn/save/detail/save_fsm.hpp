// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SAVE_FSM_HPP
#define CAIRN_SAVE_DETAIL_SAVE_FSM_HPP

#include <cairn/error.hpp>
#include <cairn/storage/concepts.hpp>

#include <vector>

namespace cairn::detail {

/// The order of a save's steps on one rank, and the reactions to failures; no I/O.
///
/// The caller (`save_op`) carries out the step that `resume` returned and reports how it ended.
/// Invariants, tested by failing each step in turn:
/// - nothing is written before all ranks have agreed on a plan, nothing is committed before all
///   have written;
/// - a rank that fails takes part in the next exchange, so that the others learn of it;
/// - a rank removes its files only while its results are unsent, after a verdict that the save
///   failed, or if it failed itself, so that no commit is possible. Otherwise, without a verdict,
///   it queries the storage (`resolve`) and removes nothing;
/// - a commit that reported an error has failed only if the storage says so (`query`);
/// - a replaced checkpoint is removed after the verdict was sent, never before;
/// - after a failure the coordinator learns which ranks have removed their files, before it forgets
///   the files' names.
class save_fsm {
public:
    enum class step {
        open,                ///< the coordinator names the save
        plan_local,          ///< reset, set up, local plan
        exchange_plans,      ///< gather
        plan_global,         ///< coordinator only: dedup, validate, claim the place
        exchange_global,     ///< scatter
        stage,               ///< finish the plan, collect or copy the items
        write,               ///< write the items
        exchange_results,    ///< gather
        commit,              ///< coordinator only: metadata last
        query,               ///< coordinator only: after a failure, whether it was committed
        exchange_verdict,    ///< broadcast
        resolve,             ///< no verdict was received, or it is "unknown": query the storage
        abandon,             ///< remove the files that this rank wrote
        exchange_abandoned,  ///< gather: which ranks have removed their files
        sweep,               ///< coordinator only: remove the files that this save left or replaced
        done,
    };
    /// How a step ended on this rank.
    enum class event {
        ok,
        failed,     ///< the work failed, here or (after an exchange) on any rank
        cut_short,  ///< the exchange itself failed: the other ranks' outcomes are unknown
        refused,    ///< a commit that was not begun
        unknown     ///< a commit that may or may not have happened
    };
    static event event_of(const std::vector<rank_failure>& failures) noexcept {
        for (auto const& f : failures)
            if (f.code == make_error_code(errc::outcome_unknown)) return event::unknown;
        return failures.empty() ? event::ok : event::failed;
    }

    explicit save_fsm(bool coordinator) noexcept : coordinator_(coordinator) {}

    step current() const noexcept { return step_; }
    bool succeeded() const noexcept { return step_ == step::done && !failed_; }
    /// The argument of `sweep`.
    save_end end() const noexcept { return end_; }

    /// Whether there may be a checkpoint, as far as this rank knows in this step.
    bool may_be_committed() const noexcept {
        if (end_ == save_end::committed) return true;
        if (own_failure_) return false;  // it has not sent what a commit needs
        switch (step_) {
            case step::exchange_results: return !coordinator_;
            case step::commit:
            case step::query: return true;
            case step::exchange_verdict: return !coordinator_ || committed_ || unknown_;
            case step::resolve: return true;
            default: return false;
        }
    }

    step resume(event e) noexcept {
        using enum step;
        bool const ok = e == event::ok;
        bool const cut = e == event::cut_short;
        switch (step_) {
            case open: return go(ok ? plan_local : fail(done));
            case plan_local:  // a failure travels with the exchange
                own_failure_ = !ok;
                return go(exchange_plans);
            case exchange_plans:
                if (cut) return go(fail(abandon));
                return go(coordinator_ && ok ? plan_global : exchange_global);
            case plan_global:
                claimed_ = true;
                plans_sent_ = ok;
                return go(exchange_global);
            case exchange_global:
                if (ok) return go(stage);
                // A rank that received no plan writes nothing.
                end_ = cut && plans_sent_ ? save_end::uncertain : save_end::abandoned;
                return go(fail(abandon));
            case stage: own_failure_ = !ok; return go(ok ? write : exchange_results);
            case write: own_failure_ = !ok; return go(exchange_results);
            case exchange_results:
                // Only the coordinator decides; without all results the save fails.
                if (cut) return go(coordinator_ ? fail(abandon) : without_verdict());
                return go(coordinator_ && ok ? commit : exchange_verdict);
            case commit:
                if (e == event::failed) return go(query);
                [[fallthrough]];
            case query:
                committed_ = ok;
                unknown_ = e == event::unknown;
                return go(exchange_verdict);
            case exchange_verdict:
                if (unknown_ || e == event::unknown) return go(resolve);
                // Even if some ranks missed the verdict; they are not waited for.
                if (committed_ || ok) return go(succeed());
                if (cut) return go(coordinator_ ? fail(abandon) : without_verdict());
                acknowledge_ = true;
                return go(fail(abandon));
            case resolve: return go(ok ? succeed() : fail(done));
            case abandon:
                if (!ok) end_ = save_end::uncertain;
                return go(acknowledge_ ? exchange_abandoned : after_failure());
            case exchange_abandoned:
                if (ok) end_ = save_end::abandoned;
                return go(after_failure());
            case sweep: return go(done);
            case done: return done;
        }
        return done;
    }

private:
    step go(step s) noexcept { return step_ = s; }
    step fail(step s) noexcept {
        failed_ = true;
        return s;
    }
    step succeed() noexcept {
        end_ = save_end::committed;
        return coordinator_ ? step::sweep : step::done;
    }
    /// A save cannot be committed if this rank's part has failed.
    step without_verdict() noexcept { return own_failure_ ? fail(step::abandon) : step::resolve; }
    step after_failure() const noexcept {
        return coordinator_ && claimed_ ? step::sweep : step::done;
    }

    step step_ = step::open;
    save_end end_ = save_end::uncertain;
    bool coordinator_;
    bool failed_ = false;
    bool own_failure_ = false;
    bool claimed_ = false;  ///< The place may have been claimed.
    bool plans_sent_ = false;
    bool committed_ = false;
    bool unknown_ = false;
    bool acknowledge_ = false;  ///< All ranks know of the failure and report what they removed.
};

}  // namespace cairn::detail

#endif
