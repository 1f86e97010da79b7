// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_CORE_HPP
#define CAIRN_CHECKPOINTER_DETAIL_CORE_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/checkpointer/detail/recovery.hpp>
#include <cairn/checkpointer/detail/rendezvous.hpp>
#include <cairn/checkpointer/detail/schedule.hpp>
#include <cairn/checkpointer/detail/shown_phase.hpp>
#include <cairn/checkpointer/detail/signal_watch.hpp>
#include <cairn/checkpointer/detail/uploads.hpp>
#include <cairn/checkpointer/options.hpp>
#include <cairn/checkpointer/plan.hpp>
#include <cairn/checkpointer/stored_checkpoint.hpp>
#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/load/options.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/save/detail/overlap_gate.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/plan_cache.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::detail {

struct checkpointer_parts;

/// The part of a checkpointer that does not depend on the user's types: carries out what the
/// coordinator's `checkpoint_schedule` decides. Threads: one at a time.
class checkpointer_core {
public:
    /// Calls the user's `state_dict`: when a save begins, not before.
    using make_state = std::function<std::shared_ptr<flattened_or_error>()>;

    struct parts {
        any_communicator lane;  ///< Used by nothing else. Moved on to the group.
        bool alone = false;     ///< It is a `solo`, passed explicitly.
        /// Of a store of files, for its free space.
        std::optional<std::string> directory{};
        any_store store;
        std::vector<any_memory_space> spaces{};  ///< They outlive the checkpointer.
        erased_sinks sinks{};
        std::shared_ptr<const mapping> names{};
    };
    /// Collective. @throws error on all ranks if options are not valid on any
    CAIRN_DECL checkpointer_core(parts p, checkpointer_options options);
    checkpointer_core(checkpointer_core&&) = delete;
    CAIRN_DECL ~checkpointer_core();

    /// Waits for the end of the earlier save and of uploads on this rank; must come before
    /// `replace_group`.
    CAIRN_DECL void finish_all();
    /// Collective, with the constructors of ranks that are new. After an error the group is
    /// unchanged.
    /// @return the outcome of the earlier save
    CAIRN_DECL checkpoint_result replace_group(any_communicator lane, bool alone);
    std::chrono::milliseconds exchange_timeout() const { return options_.save.exchange_timeout; }

    /// @param call  `maybe_save` or `save_now`.
    CAIRN_DECL checkpoint_result at_step(checkpointer_call call, std::int64_t step,
                                         const make_state& state, const save_notes& notes);
    /// See `checkpointer::before_update`.
    void before_update() {
        passing([](overlap_gate& g) { g.pass(); });
    }
    template <class Stream>
    void before_update(const Stream& stream) {
        passing([&](overlap_gate& g) { g.pass(stream); });
    }
    CAIRN_DECL std::optional<save_report> wait();
    /// Must come before `load`: the state is not used before the earlier save has ended.
    CAIRN_DECL void prepare_load();
    CAIRN_DECL load_report load(flattened_or_error& state, const checkpoint_id& id,
                                const load_options& options);
    /// Waits for an earlier save.
    CAIRN_DECL std::optional<checkpoint_id> latest(const latest_options& options);
    /// The parts of `load_latest`.
    CAIRN_DECL recovery search(const latest_options& options);
    stored_checkpoint content(const recovery::found& f) const {
        return ranks().alone([&] {
            return stored_checkpoint(f.id, f.meta, store_of(f.tier), parts_.spaces, parts_.names);
        });
    }
    const std::optional<uploaded_checkpoint>& uploaded() const noexcept { return uploaded_; }
    /// @param damage  The damage that this rank has found before.
    /// @return Nothing if the checkpoint is damaged.
    CAIRN_DECL std::optional<load_report> try_load(flattened_or_error& state, recovery& search,
                                                   const recovery::found& f,
                                                   const load_options& options,
                                                   const std::exception_ptr& damage = nullptr);
    /// Likewise, before `plan`.
    CAIRN_DECL void prepare_plan();
    CAIRN_DECL checkpoint_plan plan(flattened_or_error& state);
    /// Plans, and allocates the memory for copies.
    CAIRN_DECL checkpoint_plan reserve(flattened_or_error& state);
    arena_stats staging() const { return arena_->stats(); }

private:
    using action = checkpoint_schedule::action;
    using time_point = checkpoint_schedule::time_point;

    /// The ranks, and the lane on which only this checkpointer's exchanges run.
    struct group {
        group(any_communicator l, bool is_solo, const save_options& o)
            : lane(std::move(l)), alone(is_solo), ranks(ref, o.coordinator, o.exchange_timeout) {}
        group(group&&) = delete;
        ~group() {
            if (!agreed) lane.cancel();
        }
        any_communicator lane;
        bool alone;
        communicator_ref<any_communicator> ref{lane};
        blocking_exchange ranks;
        std::shared_ptr<detail::uploads> uploads{};  ///< Null: there are none.
        /// Ranks that do not see what the coordinator writes to the first place; none: it is not
        /// known, or there is no second place.
        std::optional<std::vector<int>> apart{};
        bool agreed = false;  ///< All ranks know that they have joined, or why they have not.
    };
    blocking_exchange& ranks() const noexcept { return group_->ranks; }
    struct earlier_handle;
    /// The first exchange of a group. @param prepare  If it throws, no rank joins.
    template <class F>
    joint_report join(group& g, F&& prepare);
    std::vector<rank_failure> or_unknown(std::vector<rank_failure> failures) const;

    void reserve_for(const flattened_or_error& state, std::uint64_t bytes);
    /// @throws error in a forked child, which has none of the threads that it would wait for
    void check_process() const;
    rendezvous_answer meet(checkpointer_call call, std::int64_t step);
    rendezvous_answer answer(const std::vector<outcome>& all);
    /// On the coordinator: whether a save that is due is to be uploaded, too.
    bool upload_due(bool asked, bool busy);
    struct agreement {
        rendezvous_answer answer{};
        std::optional<time_point> since{};      ///< From here on, ranks do not wait for late ones.
        std::vector<rank_failure> tolerated{};  ///< Of an earlier save, or upload.
        std::optional<uploaded_checkpoint> uploaded{};
    };
    uploaded_checkpoint note_upload(uploads::result u);
    void settle_upload(checkpointer_call call, agreement& all);
    /// Whether a call goes on although an upload, or the earlier save, has failed.
    bool goes_on(checkpointer_call call, const rendezvous_answer& a,
                 const std::vector<rank_failure>& failures, std::int64_t failed) const;
    /// The earlier save has failed on all ranks: it is not uploaded.
    void drop_upload();
    std::size_t open_uploads() const { return group_->uploads ? group_->uploads->size() : 0; }
    /// A save has completed, in the first of two places. Removes this rank's files of checkpoints
    /// that are not there any more, if they are on a disk that the coordinator does not see.
    void note_local(const std::vector<std::string>& removed) noexcept;
    /// @param failed  The files are to be removed, unless this rank sees its metadata nevertheless.
    ///                Where it cannot, they serve uploads alone, and a failed save has none.
    void add_local(const written_part& part, bool failed);
    bool has_metadata(const checkpoint_id& id);
    void remove_unneeded();
    void note_unremoved(const std::exception_ptr& why) noexcept;
    /// Another group goes on: what this rank has written to a disk of its own is of no use.
    void remove_all_local() noexcept;
    /// Opens the uploads of a group; collective.
    void open_uploads(group& g);
    /// After a failure, which may have broken their lane; collective.
    void reopen_uploads() noexcept;
    /// Finds out which ranks see the coordinator's files in the first place; collective.
    void compare_disks(group& g);
    bool is_apart(const group& g) const;
    /// Also where it is not known: nothing is lost if this rank notes what it has written, and
    /// removes what has been removed.
    bool may_be_apart(const group& g) const { return is_apart(g) || (options_.upload && !g.apart); }
    /// Waits for uploads, and shows the other ranks that this one does.
    void await_uploads(const std::function<void(uploads&, const uploads::pulse&)>& wait);
    /// Reports uploads that have failed. Waits for them, or cancels them.
    void end_uploads(bool cancelled);
    /// Where checkpoints are: 0, or 1 for where they are uploaded to.
    const any_store& store_of(std::size_t tier) const {
        return tier == 0 ? parts_.store : options_.upload->to;
    }
    /// Returns where a checkpoint of that name is; the same on all ranks.
    /// @param unseen  Receives a warning if the first place cannot say whether it is there.
    std::size_t tier_of(const checkpoint_id& id, std::string& unseen);
    checkpoint_id in_tier(std::size_t tier, const checkpoint_id& named);
    std::optional<checkpoint_id> other_copy(const checkpoint_id& id,
                                            const std::exception_ptr& mine);
    load_report load_from(std::size_t tier, flattened_or_error& state, const checkpoint_id& id,
                          const load_options& options);
    void finish_earlier();
    /// Lets the other ranks see what this one works on, while they wait for it.
    void show(std::shared_ptr<const activity> a) noexcept;
    /// Exchanges with the other ranks until none has to wait for the earlier save.
    /// @throws error with its failures, if it failed
    agreement agree(checkpointer_call call, std::int64_t step);
    checkpoint_result meet_at_step(checkpointer_call call, std::int64_t step,
                                   const make_state& state, const save_notes& notes);
    void check_coordinator(int size) const;
    void check_keep() const;
    void check_upload() const;
    void check_same_upload(bool other) const;
    void check_failed_saves() const;
    void check_same_coordinator(std::int64_t other) const;
    /// Whether a call may return although one more save has failed; the same on all ranks.
    /// @param failed  How many have failed before it, in a row.
    bool tolerates(checkpointer_call call, const std::vector<rank_failure>& failures,
                   std::int64_t failed) const;
    /// Records tolerated failures for `wait`.
    /// @param what  "save", or "upload".
    void tolerate(const char* what, std::int64_t step, const std::vector<rank_failure>& failures);
    /// Returns an error with these failures; for `wait`, also with those tolerated since its last
    /// call.
    error all_failures(checkpointer_call call, std::vector<rank_failure> failures);
    std::exception_ptr tolerated() const noexcept;
    /// Saves, and waits for the copies.
    /// @param earlier  How many failures this call has tolerated: they are thrown with its own.
    /// @return The failures of a save that failed and was tolerated.
    std::vector<rank_failure> save(checkpointer_call call, std::int64_t step,
                                   const make_state& state, const save_notes& notes,
                                   time_point stalled_since, std::size_t earlier);
    /// Starts a save that continues to copy after the call.
    void overlap(std::int64_t step, const make_state& state, const save_notes& notes,
                 time_point stalled_since);
    std::vector<std::byte> staged(checkpointer_call call, const std::vector<outcome>& all);
    void begin(std::int64_t step, const make_state& state, const save_notes& notes);
    template <class Handler>
    void start(std::shared_ptr<flattened_or_error> state, std::int64_t step,
               const save_notes& notes, const checkpointer_parts& more,
               std::shared_ptr<written_part> part, Handler handler);
    /// Notes that this run has read a checkpoint, which is then kept until a newer one is read.
    /// Adds a warning if that fails.
    void note_read(std::size_t tier, const checkpoint_id& id,
                   std::vector<std::string>& warnings) noexcept;
    /// How often to show the other ranks that this one advances, while it waits.
    std::chrono::milliseconds pulse() const {
        constexpr std::chrono::milliseconds longest{1000}, shortest{1};
        return std::clamp(options_.save.exchange_timeout / 4, shortest, longest);
    }
    /// Shows the other ranks, which may wait for this one meanwhile, what it waits for.
    template <class F>
    void while_shown(const char* phase, F&& f) {
        shown_phase const shown(*activity_, phase);
        f();
    }
    template <class F>
    void passing(F&& f) {
        check_process();
        if (!gate_ || gate_->over()) return;
        auto const from = std::chrono::steady_clock::now();
        while_shown("copy", [&] { f(*gate_); });
        auto const took = std::chrono::steady_clock::now() - from;
        stall_ += took;
        stopped_ += took;
    }
    /// The training may have changed tensors since the earlier save began.
    void refuse_unpassed(checkpointer_call call, std::int64_t step) noexcept;
    /// Whether the earlier save has ended on this rank; takes its handle if it is staged.
    bool has_ended();
    void take_handle();
    void note_failure() noexcept;
    /// Called when all ranks have learned how the earlier save ended.
    void settle();

    home_process home_{};
    checkpointer_options options_;
    parts parts_;
    std::unique_ptr<group> group_;
    std::shared_ptr<activity> activity_ = std::make_shared<activity>();  ///< Of this rank's calls.
    std::shared_ptr<run_catalog> catalog_{}, upload_catalog_{};
    std::optional<staging_arena> arena_{};
    plan_cache plans_{};
    std::optional<signal_watch> signals_{};
    std::optional<checkpoint_schedule> schedule_{};  ///< The coordinator's is used.
    std::int64_t next_ = checkpoint_schedule::next_call;
    std::optional<std::int64_t> last_step_{};
    std::int64_t most_failed_ = 0, failed_in_a_row_ = 0;
    std::vector<rank_failure> tolerated_{};  ///< Since the last `wait`; the same on all ranks.
    bool untold_ = false;  ///< The latest save has failed, and nothing was thrown; likewise.
    std::int64_t failed_uploads_ = 0;       ///< In a row.
    bool untold_upload_ = false;            ///< As `untold_`.
    std::int64_t saves_since_upload_ = 0;   ///< The coordinator's is used.
    bool uploads_earlier_ = false;          ///< The earlier save is to be uploaded.
    uploads::added upload_{};               ///< For a save that has not begun.
    std::shared_ptr<written_part> part_{};  ///< Of the earlier save, if there are two places.
    struct own_files {
        checkpoint_id place{};
        std::vector<std::string> names{};
        bool unneeded = false;      ///< To be removed.
        bool unless_whole = false;  ///< But kept if the metadata is there.
        int failed = 0;             ///< So many removals have.
    };
    std::map<std::string, own_files> local_{};  ///< By save id; if this rank's disk is its own.
    std::string apart_warning_{}, unremoved_warning_{};  ///< For the next report.
    std::optional<uploaded_checkpoint> uploaded_{};
    std::optional<recovery::found> latest_{};  ///< What `latest` has found; its id and tier.
    earlier_save earlier_ = earlier_save::none;
    std::shared_ptr<overlap_gate> gate_{};    ///< Of the earlier save.
    std::unique_ptr<earlier_handle> handle_;  ///< Of the earlier save. Not null.
    std::int64_t saving_step_ = 0;
    std::chrono::nanoseconds stall_{};    ///< Of the earlier save, if it was overlapped.
    std::chrono::nanoseconds stopped_{};  ///< By `before_update`, since a result has said so.
    std::exception_ptr failure_{};
    std::vector<rank_failure> failures_{};
    std::optional<save_report> report_{};      ///< Of the earlier save.
    std::optional<save_report> unreported_{};  ///< Of one that all know of; not yet returned.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/core.ipp>
#include <cairn/checkpointer/impl/core_loads.ipp>
#include <cairn/checkpointer/impl/core_saves.ipp>
#include <cairn/checkpointer/impl/core_uploads.ipp>
#endif

#endif
