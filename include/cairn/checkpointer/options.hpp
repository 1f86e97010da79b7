// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_OPTIONS_HPP
#define CAIRN_CHECKPOINTER_OPTIONS_HPP

#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/memory/arena_options.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/save/options.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace cairn {

/// A save is due at each multiple of `count`: at the first call whose step reaches it.
struct steps {
    explicit constexpr steps(std::int64_t n) : count(n) {}
    std::int64_t count;
};

/// A save is due as often as its stalls, i.e. the time for which it stops training, allow: the next
/// one when `share` of the time since the last one is as long as the measured stall of the last
/// one. The first save is due at the first call.
struct overhead {
    explicit constexpr overhead(double s, std::chrono::nanoseconds least = std::chrono::minutes(1))
        : share(s), at_least(least) {}
    double share;                       ///< Of the training's time: 0.01 is one percent.
    std::chrono::nanoseconds at_least;  ///< The least time from one save to the next.
};

/// How often a `checkpointer` saves: every so many steps, after so much time, or as often as an
/// overhead allows.
class save_interval : public std::variant<steps, std::chrono::nanoseconds, overhead> {
public:
    save_interval(steps n) : variant(n) {}
    template <class Rep, class Period>
        requires std::is_convertible_v<std::chrono::duration<Rep, Period>, std::chrono::nanoseconds>
    save_interval(std::chrono::duration<Rep, Period> t) : variant(std::chrono::nanoseconds(t)) {}
    save_interval(overhead share) : variant(share) {}
    /// Refuses anything else, such as a number without a unit, with a readable error.
    template <class T>
        requires(!std::is_convertible_v<T, steps> &&
                 !std::is_convertible_v<T, std::chrono::nanoseconds> &&
                 !std::is_convertible_v<T, overhead> &&
                 !std::is_same_v<std::remove_cvref_t<T>, save_interval>)
    save_interval(T&&) : variant(steps(1)) {
        static_assert(sizeof(std::decay_t<T>) == 0,
                      "checkpointer_options::every: give cairn::steps(n), a std::chrono duration "
                      "of whole nanoseconds such as std::chrono::minutes(10), or "
                      "cairn::overhead(share); a number alone has no unit");
    }
};

/// The reaction to a save that is due while the previous one is still being written.
enum class busy_policy : std::uint8_t {
    wait,  ///< Wait for the end of the previous save, then save.
    skip,  ///< Do not save; the next save is due an interval later.
    queue  ///< Save at the first call at which the previous save has ended on all ranks.
};

/// What the destructor of a `checkpointer` does with a save that is still being written.
enum class destruction_policy : std::uint8_t {
    wait,   ///< It waits until the checkpoint exists.
    cancel  ///< It cancels the save on all ranks and removes its files, after the current write.
};

/// A second place for checkpoints of a `checkpointer`, e.g. a bucket, where the first one is a disk
/// of each node: fast, and lost with it.
///
/// Each `every`-th checkpoint is copied there in the background, while the next ones are saved to
/// the first place: every rank copies what it has written itself. So are those of `save_now` and of
/// signals, because they may be the last ones. A checkpoint exists there only once all of it does.
struct upload_options {
    /// A `BrowsableStore`: `cairn::any_store(cairn::s3_store("s3://bucket/run"))`.
    any_store to;
    /// While one is being copied, the next waits for the next save. The coordinator's is used.
    int every = 1;
    /// Which are kept there; see `checkpointer_options::keep`.
    retention keep{};
    torch_writer_options storage{};  ///< Of the copies; `polite` limits how much they disturb.
};

/// Options of a `checkpointer`.
struct checkpointer_options {
    /// How often `maybe_save` saves. The coordinator's value is used.
    save_interval every = std::chrono::minutes(10);
    /// Which checkpoints are kept; the others are removed in the background once a save is durable,
    /// before its report, and before the first save of a run writes. One that cannot be removed is
    /// a warning of one report. Checkpoints that no checkpointer has saved stay, including copied
    /// and renamed ones; so do those that a load of this process is reading, or of another process
    /// that has announced it (`torch_reader_options::announce`). The first save also removes what
    /// saves and removals that were killed have left in the places of steps. The coordinator's
    /// value is used. By default, all are kept.
    retention keep{};
    /// One save is written at a time. The coordinator's value is used.
    busy_policy when_busy = busy_policy::wait;
    /// `maybe_save` returns before the tensors are copied: while the next step computes gradients,
    /// they are copied, and `before_update` waits for that. A save that a signal asks for is not
    /// overlapped. The coordinator's value is used.
    bool overlap = false;
    /// How many saves in a row may fail, e.g. because a disk is full, before `maybe_save` throws:
    /// it returns that many failures (`checkpoint_result::failures`), and saves again when the next
    /// save is due. `wait` reports them again; other members throw each failure. Failures that the
    /// next save would repeat (errc::invalid_plan, invalid_argument, invalid_state and unsupported)
    /// and those that make the group unusable, such as the death of a rank, are always thrown. The
    /// coordinator's value is used.
    int max_failed_saves = 0;
    /// What happens to a save, or an upload, that is under way when the checkpointer is destroyed.
    destruction_policy destruction = destruction_policy::wait;
    /// Where checkpoints are copied to; on all ranks, or on none. The first save of a process is
    /// uploaded, too, and each that a signal asks for. An upload that fails is told like a save
    /// that fails, and tolerated like one; the next save is then uploaded. Until its end its
    /// checkpoint is kept in the first place, whatever the rules.
    std::optional<upload_options> upload{};
    /// Signals that ask for a save, e.g. `{SIGTERM, SIGUSR1}`. Their handlers are replaced while
    /// the checkpointer exists. A signal on one rank is enough: all ranks then save. One that comes
    /// too late for that is seen by the next checkpointer of the process.
    std::vector<int> save_on_signal{};
    /// Options of the memory for copies. If a state needs more than `budget`, the remainder is
    /// written from the tensors: `maybe_save` then returns when that is written.
    arena_options arena{};
    /// Options of each save; `exchange_timeout` and `coordinator` also apply to the checkpointer's
    /// own exchanges, `on_unclaimed_error` to errors that the destructor finds.
    save_options save{};
};

/// Notes that are stored with a checkpoint besides its state. The coordinator's are used.
struct save_notes {
    /// Metrics by name, e.g. `{{"loss", 0.3}}`; for `best`.
    std::map<std::string, double, std::less<>> metrics{};
};

/// A checkpoint that was copied to the second place.
struct uploaded_checkpoint {
    checkpoint_id id{};
    std::int64_t step = 0;
    save_report report{};  ///< This rank's, of the copy.
};

/// The checkpoint that `checkpointer::load_latest` has loaded.
struct loaded_checkpoint {
    checkpoint_id id{};
    load_report report{};
};

/// What `maybe_save` or `save_now` did; apart from `completed`, `stall` and the report of
/// `uploaded`, the same on all ranks.
struct checkpoint_result {
    /// This step is being saved. Its tensors are copied and may change; with
    /// `checkpointer_options::overlap`, after `before_update`.
    bool saved = false;
    /// A save was due, but the previous one was still being written (`busy_policy`).
    bool postponed = false;
    /// The signals that asked for a save, on any rank: this step is saved, i.e. copied on all
    /// ranks, or has been saved already. A signal whose save fails before that asks again, at the
    /// next call.
    std::vector<int> signals{};
    /// This rank's report of an earlier save, in the call that learned that it has completed, or
    /// in the next one that saves, or `wait`, if that was `load` or another call that returns none.
    std::optional<save_report> completed{};
    /// The latest upload, in the call that learned that it is complete.
    std::optional<uploaded_checkpoint> uploaded{};
    /// For each rank that has failed: why an earlier save, an upload, or this save, has failed and
    /// was tolerated (`checkpointer_options::max_failed_saves`); from `save_now`, and where a
    /// signal asks for the save, why an earlier one has failed. Empty: none has.
    std::vector<rank_failure> failures{};
    /// How long the training was stopped on this rank: by this call, and by `before_update` since
    /// the previous call of `maybe_save` or `save_now`.
    std::chrono::nanoseconds stall{};

    explicit operator bool() const noexcept { return saved; }
};

}  // namespace cairn

#endif
