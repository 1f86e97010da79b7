// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_LOAD_FSM_HPP
#define CAIRN_LOAD_DETAIL_LOAD_FSM_HPP

#include <cairn/detail/cxx20.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/error.hpp>

#include <vector>

namespace cairn::detail {

/// The order of a load's steps on one rank, and the reactions to failures; no I/O.
///
/// Invariants, tested by failing each step in turn:
/// - the user's state is not modified before every rank has accepted its plan;
/// - all ranks load the metadata that the coordinator read;
/// - a rank that fails takes part in the next exchange, so that the others learn of it;
/// - shared data is broadcast only if every rank's read succeeded, by all ranks in one turn;
/// - if a data file was missing or not the expected one because the checkpoint was replaced during
///   the load, whether before or after memory has changed, all ranks restart together, once for
///   each save that has replaced it, a bounded number of times.
class load_fsm {
public:
    enum class step {
        read_metadata,      ///< coordinator only
        exchange_metadata,  ///< broadcast
        plan_local,         ///< reset, set up, local plan
        exchange_plans,     ///< gather
        plan_global,        ///< coordinator only
        exchange_global,    ///< scatter
        finish_plan,        ///< the planner's final plan; values are read and checked
        agree,              ///< all-gather: from here on memory changes
        read,               ///< read into place
        share,              ///< broadcast what one rank has read for all
        exchange_results,   ///< all-gather
        look_again,         ///< coordinator only: was the checkpoint, or a file of it, replaced?
        exchange_restart,   ///< broadcast
        done,
    };
    enum class event {
        ok,
        failed,
        to_share,   ///< all ranks succeeded, and some of what they read is to be broadcast
        cut_short,  ///< the exchange itself failed
        moved       ///< a data file was not the expected one; or: yes, it was replaced
    };
    /// Returns the event after an exchange, when all ranks know the same failures: if a file is
    /// missing, wrong or another one, the checkpoint was replaced concurrently, or is damaged.
    static event event_of(const std::vector<rank_failure>& failures) noexcept {
        for (auto const& f : failures)
            if (is_damage(f.code) || f.code == make_error_code(errc::not_found) ||
                f.code == make_error_code(errc::io) ||
                f.code == make_error_code(errc::concurrent_save))
                return event::moved;
        return failures.empty() ? event::ok : event::failed;
    }
    static constexpr int attempts = 8;

    explicit load_fsm(bool coordinator) noexcept : coordinator_(coordinator) { start(); }

    /// @param here  Whether neither this rank's planner nor its reader uses the items of other
    ///              plans.
    void items_stay_local(bool here) noexcept { local_ = here; }
    /// On the coordinator: whether it needs the items of all ranks, which it tells them.
    bool needs_items(bool data_plane) const noexcept { return !local_ || data_plane; }
    /// @param needed  Whether the coordinator needs the items.
    void told(bool needed) noexcept { needed_ = needed; }
    /// Whether the items of this rank's plan are not sent to the coordinator and back.
    bool keeps_items() const noexcept { return local_ && !needed_; }

    /// @param here  Whether files of the checkpoint may be replaced without a trace in its
    ///              metadata, so that the coordinator looks at them when all ranks have read.
    void may_be_replaced(bool here) noexcept { replaceable_ = here; }

    /// Whether the load fails if the checkpoint was replaced again.
    bool last_attempt() const noexcept { return attempt_ >= attempts; }

    step current() const noexcept { return step_; }
    bool succeeded() const noexcept { return step_ == step::done && !failed_; }
    /// Whether the user's memory may have changed.
    bool state_modified() const noexcept { return modified_; }

    step resume(event e) noexcept {
        using enum step;
        bool const ok = e == event::ok;
        if (e == event::cut_short) return fail();
        switch (step_) {
            case read_metadata: return go(exchange_metadata);
            case exchange_metadata: return ok ? go(plan_local) : fail();
            case plan_local: return go(exchange_plans);
            case exchange_plans: return go(coordinator_ && ok ? plan_global : exchange_global);
            case plan_global: return go(exchange_global);
            case exchange_global: return ok ? go(finish_plan) : look_or_fail(e);
            case finish_plan: return go(agree);
            case agree:
                if (!ok) return look_or_fail(e);
                modified_ = true;
                return go(read);
            case read:
            case share: return go(exchange_results);
            case exchange_results:
                if (e == event::to_share) return go(share);
                if (ok && !replaceable_) return go(done);
                complete_ = ok;
                return look_or_fail(ok ? event::moved : e);
            case look_again: return go(exchange_restart);
            case exchange_restart:
                if (ok && complete_) return go(done);
                if (e != event::moved || last_attempt()) return fail();
                ++attempt_;
                start();
                return step_;
            case done: return done;
        }
        return done;
    }

private:
    void start() noexcept {
        complete_ = false;
        step_ = coordinator_ ? step::read_metadata : step::exchange_metadata;
    }
    step go(step s) noexcept { return step_ = s; }
    /// After an exchange: all ranks decide alike.
    step look_or_fail(event e) noexcept {
        if (e != event::moved) return fail();
        return go(coordinator_ ? step::look_again : step::exchange_restart);
    }
    step fail() noexcept {
        failed_ = true;
        return step_ = step::done;
    }

    step step_ = step::read_metadata;
    bool coordinator_;
    bool failed_ = false;
    bool modified_ = false;
    bool local_ = false;
    bool needed_ = true;
    bool replaceable_ = false;
    bool complete_ = false;  ///< All ranks have read everything, in this attempt.
    int attempt_ = 1;
};

}  // namespace cairn::detail

#endif
