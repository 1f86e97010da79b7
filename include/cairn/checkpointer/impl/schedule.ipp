// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_SCHEDULE_IPP
#define CAIRN_CHECKPOINTER_IMPL_SCHEDULE_IPP

#include <cairn/checkpointer/detail/schedule.hpp>

#include <cairn/error.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL checkpoint_schedule::checkpoint_schedule(const save_interval& every,
                                                    busy_policy when_busy)
    : every_(every), when_busy_(when_busy) {
    auto const refuse = [](std::string expected, std::string found) {
        throw error(errc::invalid_argument, {.expected = "checkpointer_options::every: " + expected,
                                             .found = std::move(found)});
    };
    if (auto const* s = std::get_if<steps>(&every_); s != nullptr && s->count < 1)
        refuse("1 step or more", std::to_string(s->count));
    if (auto const* d = std::get_if<duration>(&every_); d != nullptr && d->count() < 1)
        refuse("more than no time", std::to_string(d->count()) + " ns");
    auto const* o = std::get_if<overhead>(&every_);
    if (o != nullptr && !(o->share > 0 && o->share < 1))
        refuse("an overhead between 0 and 1", std::to_string(o->share));
    if (o != nullptr && o->at_least.count() < 0)
        refuse("an overhead with a time of 0 or more", std::to_string(o->at_least.count()) + " ns");
}

CAIRN_DECL auto checkpoint_schedule::decide(const facts& f) -> decision {
    note(f);
    decision d;
    d.settled = f.earlier == earlier_save::completed || f.earlier == earlier_save::failed;
    if (d.settled) settled(f.earlier == earlier_save::failed);
    bool const repeated = saved_step_ == f.step;
    bool const wanted = f.forced || ((f.signalled || owed_ || due(f)) && !repeated);
    if (f.signalled && repeated && f.earlier == earlier_save::writing) {
        d.what = action::wait;  // whether it still holds this step is not known
        return d;
    }
    if (f.earlier == earlier_save::failed) {
        d.what = action::fail;
        owed_ = owed_ || wanted;
    } else if (wanted && f.earlier == earlier_save::writing) {
        if (f.forced || f.signalled || when_busy_ == busy_policy::wait) {
            d.what = action::wait;
            return d;
        }
        d.postponed = true;
        if (when_busy_ == busy_policy::queue)
            owed_ = true;
        else
            advance(f.step, f.now);
    } else if (wanted) {
        d.what = action::save;
        return d;
    }
    plan_next(f);
    return d;
}

CAIRN_DECL void checkpoint_schedule::started(time_point now, duration stall) {
    owed_ = false;
    stall_ = stall;
    saved_step_ = last_.step;
    advance(last_.step, last_.now);
    last_.now = measured_from_ = now;  // the stall is no part of a step's time
    plan_next(last_);
}
CAIRN_DECL void checkpoint_schedule::refused() {
    owed_ = true;
    plan_next(last_);
}
CAIRN_DECL void checkpoint_schedule::given_up() {
    owed_ = last_.signalled;  // there may be no time for the next one
    advance(last_.step, last_.now);
    plan_next(last_);
}
CAIRN_DECL void checkpoint_schedule::settled(bool failed) {
    if (failed) saved_step_.reset();
}
CAIRN_DECL void checkpoint_schedule::restart() {
    begun_ = false;
    saved_step_.reset();
    next_ = next_call;
}

CAIRN_DECL void checkpoint_schedule::note(const facts& f) {
    if (begun_ && f.step < last_.step) begun_ = false;  // the run has gone back
    if (!has_begun_) counted_from_ = f.now;
    if (!begun_) {
        if (auto const* s = std::get_if<steps>(&every_)) {
            auto const from = std::max<std::int64_t>(f.step, 1);
            due_step_ = from + (s->count - from % s->count) % s->count;
        }
        saved_step_.reset();
        measured_from_ = f.now;
        a_step_.reset();
        gap_ = 1;
    } else if (f.step > last_.step) {
        a_step_ = (f.now - measured_from_) / (f.step - last_.step);
        measured_from_ = f.now;
    }
    begun_ = has_begun_ = true;
    last_ = f;
}

CAIRN_DECL auto checkpoint_schedule::interval() const -> duration {
    if (auto const* d = std::get_if<duration>(&every_)) return *d;
    auto const* o = std::get_if<overhead>(&every_);
    if (o == nullptr) return duration::max();
    if (!stall_) return duration::zero();
    auto const by_share = static_cast<double>(stall_->count()) / o->share;
    if (by_share >= static_cast<double>(duration::max().count() / 2)) return duration::max();
    return std::max(o->at_least, duration(static_cast<duration::rep>(by_share)));
}
CAIRN_DECL bool checkpoint_schedule::due(const facts& f) const {
    if (std::holds_alternative<steps>(every_)) return f.step >= due_step_;
    return f.now - counted_from_ >= interval();
}
CAIRN_DECL void checkpoint_schedule::advance(std::int64_t step, time_point from) {
    counted_from_ = from;
    auto const* s = std::get_if<steps>(&every_);
    if (s == nullptr || step < due_step_) return;
    auto const beyond = step - step % s->count;
    due_step_ = beyond > std::numeric_limits<std::int64_t>::max() - s->count
                    ? std::numeric_limits<std::int64_t>::max()
                    : beyond + s->count;
}

/// Ranks meet about once a second, or a hundred times in an interval: a step or more apart, and
/// each time at most twice as far as before, because steps need not all take equally long.
CAIRN_DECL void checkpoint_schedule::plan_next(const facts& f) {
    if (owed_) {
        next_ = next_call;
        return;
    }
    constexpr duration second = std::chrono::seconds(1);
    constexpr auto last = std::numeric_limits<std::int64_t>::max();
    auto const by_steps = std::holds_alternative<steps>(every_);
    next_ = by_steps ? due_step_ : last;
    if (by_steps && !f.heeds_signals) return;
    auto const whole = interval();
    auto const left = whole - std::min(whole, duration(f.now - counted_from_));
    auto const reaction = by_steps ? second : std::min({second, whole / 100, left});
    gap_ = steps_within(reaction, gap_ * 2);
    next_ = std::min(next_, f.step > last - gap_ ? last : f.step + gap_);
}
CAIRN_DECL std::int64_t checkpoint_schedule::steps_within(duration d, std::int64_t most) const {
    constexpr std::int64_t limit = std::int64_t{1} << 20;
    most = std::min(most, limit);
    if (!a_step_) return 1;
    if (a_step_->count() <= 0) return most;
    return std::clamp<std::int64_t>(d / *a_step_, 1, most);
}

}  // namespace cairn::detail

#endif
