// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_SCHEDULE_HPP
#define CAIRN_CHECKPOINTER_DETAIL_SCHEDULE_HPP

#include <cairn/checkpointer/options.hpp>
#include <cairn/detail/config.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace cairn::detail {

/// The status of the previous save, on one rank or on all: the highest of the ranks' values
/// applies.
enum class earlier_save : std::uint8_t {
    none,       ///< There is none, or all ranks have learned how it ended.
    completed,  ///< Its checkpoint exists.
    failed,
    writing
};

/// The coordinator's decisions of a checkpointer: when to save, and when the ranks exchange next.
/// No I/O, no clock.
///
/// Ranks exchange at *rendezvous* only: at the first call whose step is the agreed one, or later.
/// Between two of them `maybe_save` compares two numbers. Invariants, tested for all orders:
/// - one save at a time, and none before all ranks have learned how the previous one ended;
/// - a save that is due stays due until it was started, except with `busy_policy::skip`;
/// - a failure is reported before anything is saved, and at one rendezvous.
class checkpoint_schedule {
public:
    using time_point = std::chrono::steady_clock::time_point;
    using duration = std::chrono::nanoseconds;
    /// The next call, whatever its step.
    static constexpr std::int64_t next_call = std::numeric_limits<std::int64_t>::min();

    /// @throws error errc::invalid_argument for an interval that is not positive, or a share that
    /// is not between 0 and 1
    CAIRN_DECL checkpoint_schedule(const save_interval& every, busy_policy when_busy);

    /// The facts that decide at a rendezvous, joined from all ranks.
    struct facts {
        std::int64_t step = 0;
        time_point now{};
        earlier_save earlier = earlier_save::none;
        bool signalled = false;      ///< A signal asks for a save.
        bool heeds_signals = false;  ///< Some rank waits for signals, so that ranks meet often.
        bool forced = false;         ///< The caller asks for a save.
    };
    enum class action : std::uint8_t {
        none,  ///< Go on training.
        save,  ///< Save; then call `started` or `refused`.
        wait,  ///< Wait for the end of the earlier save; then call `decide` again.
        fail   ///< Report the failure of the earlier save.
    };
    struct decision {
        action what = action::none;
        bool settled = false;    ///< The earlier save has ended: all ranks learn it now.
        bool postponed = false;  ///< A save is due, but not taken.
    };
    CAIRN_DECL decision decide(const facts& f);

    /// Called when the save that was decided on is staged.
    /// @param stall  How long it has stopped the training for, on the rank where that was longest.
    CAIRN_DECL void started(time_point now, duration stall);
    /// Sets how long the save has stopped training in total, if that was not known when it was
    /// started.
    void stalled(duration stall) { stall_ = stall; }
    /// Called when the save that was decided on could not be started; it stays due.
    CAIRN_DECL void refused();
    /// Called when the save that was decided on has failed: it is not tried again before the next
    /// one is due, unless a signal had asked for it.
    CAIRN_DECL void given_up();
    /// Called when the ranks have learned outside of `decide` how the earlier save ended.
    CAIRN_DECL void settled(bool failed);
    /// Called when a state was loaded: steps restart at any number.
    CAIRN_DECL void restart();

    /// Returns the step of the next exchange: the first call with this step or a higher one.
    std::int64_t next_rendezvous() const noexcept { return next_; }

private:
    void note(const facts& f);
    bool due(const facts& f) const;
    /// Restarts the interval at this step and time.
    void advance(std::int64_t step, time_point from);
    /// Returns the time from one save to the next; for an interval in steps, the largest duration.
    duration interval() const;
    void plan_next(const facts& f);
    std::int64_t steps_within(duration d, std::int64_t most) const;

    save_interval every_;
    busy_policy when_busy_;
    facts last_{};            ///< Of the latest rendezvous.
    bool begun_ = false;      ///< There was one, since the last `restart`.
    bool has_begun_ = false;  ///< There was one.
    bool owed_ = false;       ///< A save was due, and not taken.
    time_point counted_from_{};
    std::int64_t due_step_ = 0;
    std::optional<std::int64_t> saved_step_{};
    std::optional<duration> stall_{};
    time_point measured_from_{};  ///< Of the time that a step takes.
    std::optional<duration> a_step_{};
    std::int64_t gap_ = 1;
    std::int64_t next_ = next_call;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/schedule.ipp>
#endif

#endif
