// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_SAVE_FSM_HPP
#define CAIRN_SAVE_SAVE_FSM_HPP

namespace cairn::detail {

/// The order of a save's steps on one rank, and what follows a failure; no I/O.
///
/// The shell (`save_job`) carries out the step that `resume` returned and says how it ended.
/// The invariants, tested by failing each step in turn:
/// - nothing is written before all ranks agreed on a plan, nothing is committed before all wrote;
/// - a rank that fails takes part in the next exchange, so that the others learn of it;
/// - a rank removes its files only while its results are unsent, or after a verdict that says the
///   save failed. Without a verdict it asks the storage (`resolve`) and removes nothing.
class save_fsm {
public:
    enum class step {
        open,              ///< the coordinator names the save
        plan_local,        ///< reset, set up, local plan
        exchange_plans,    ///< gather
        plan_global,       ///< coordinator only: dedup, validate, claim the place
        exchange_global,   ///< scatter
        write,             ///< finish the plan, write the items
        exchange_results,  ///< gather
        commit,            ///< coordinator only: metadata last
        exchange_verdict,  ///< broadcast
        resolve,           ///< no verdict came: ask the storage
        abandon,           ///< remove what this rank wrote
        done,
    };
    /// How a step ended on this rank.
    enum class event {
        ok,
        failed,     ///< the work failed, here or (after an exchange) on any rank
        cut_short,  ///< the exchange itself failed: nobody knows what the others did
        unknown     ///< a commit that may or may not have happened
    };

    explicit save_fsm(bool coordinator) noexcept : coordinator_(coordinator) {}

    step current() const noexcept { return step_; }
    bool succeeded() const noexcept { return step_ == step::done && !failed_; }

    step resume(event e) noexcept {
        using enum step;
        bool const ok = e == event::ok;
        bool const cut = e == event::cut_short;
        switch (step_) {
            case open: return go(cut ? fail(done) : ok ? plan_local : fail(done));
            case plan_local: return go(exchange_plans);  // a failure travels with the exchange
            case exchange_plans:
                if (cut) return go(fail(abandon));
                return go(coordinator_ && ok ? plan_global : exchange_global);
            case plan_global: return go(exchange_global);
            case exchange_global: return go(ok ? write : fail(abandon));
            case write: return go(exchange_results);
            case exchange_results:
                // The coordinator alone decides; without all results it decides against.
                if (cut) return go(coordinator_ ? fail(abandon) : resolve);
                return go(coordinator_ && ok ? commit : exchange_verdict);
            case commit:
                committed_ = ok;
                unknown_ = e == event::unknown;
                return go(exchange_verdict);
            case exchange_verdict:
                if (unknown_ || e == event::unknown) return go(resolve);
                if (cut) return go(coordinator_ ? after_lost_verdict() : resolve);
                return go(ok ? done : fail(abandon));
            case resolve: return go(ok ? done : fail(done));
            case abandon: return go(done);
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
    /// The coordinator knows what it did, whoever heard of it.
    step after_lost_verdict() noexcept { return committed_ ? step::done : fail(step::abandon); }

    step step_ = step::open;
    bool coordinator_;
    bool failed_ = false;
    bool committed_ = false;
    bool unknown_ = false;
};

}  // namespace cairn::detail

#endif
