// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_CORE_SAVES_IPP
#define CAIRN_CHECKPOINTER_IMPL_CORE_SAVES_IPP

#include <cairn/checkpointer/detail/core.hpp>
#include <cairn/checkpointer/impl/core.ipp>

#include <cairn/comm/solo.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/save/detail/start_save.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <new>
#include <string>
#include <tuple>
#include <utility>

namespace cairn::detail {

CAIRN_DECL std::vector<rank_failure> checkpointer_core::save(
    checkpointer_call call, std::int64_t step, const make_state& state, const save_notes& notes,
    time_point stalled_since, std::size_t earlier) {
    outcome mine;
    try {
        begin(step, state, notes);
        // It may write what has no room.
        while_shown("copy", [&] { gate_->await_copies(); });
        take_handle();
        wire_writer w;
        w.svarint((std::chrono::steady_clock::now() - stalled_since).count());
        mine.payload = w.take();
    } catch (...) {
        ranks().alone(
            [&] { mine.failures = failures_of(std::current_exception(), ranks().rank()); });
    }
    if (gate_) gate_->pass();  // before the call returns no tensor changes
    // A rank may have failed alone: all learn of it in this call.
    outcome told;
    try {
        auto const all = ranks().gather(mine);
        told = ranks().told([&] { return staged(call, all); });
    } catch (...) {
        // If the group has failed, the failure of the save says why.
        if (!mine.failures.empty()) throw error(std::move(mine.failures), false);
        throw;
    }
    if (told.failures.empty()) {
        next_ = ranks().alone([&] { return wire_reader(told.payload).svarint(); });
        return {};
    }
    handle_->save.cancel();
    finish_earlier();  // it fails likewise
    settle();
    drop_upload();
    next_ = checkpoint_schedule::next_call;
    bool const tolerated = tolerates(call, told.failures, failed_in_a_row_);
    ++failed_in_a_row_;
    untold_ = tolerated;
    if (!tolerated) {
        auto const n = static_cast<std::ptrdiff_t>(std::min(earlier, tolerated_.size()));
        auto const first = tolerated_.end() - n;
        told.failures.insert(told.failures.end(), first, tolerated_.end());
        tolerated_.erase(first, tolerated_.end());
        throw error(std::move(told.failures), false);
    }
    tolerate("save", step, told.failures);
    return std::move(told.failures);
}
/// On the coordinator. @return where the ranks meet next
CAIRN_DECL std::vector<std::byte> checkpointer_core::staged(checkpointer_call call,
                                                            const std::vector<outcome>& all) {
    if (auto failures = collect_failures(all); !failures.empty()) {
        tolerates(call, failures, failed_in_a_row_) ? schedule_->given_up() : schedule_->refused();
        throw error(std::move(failures), false);
    }
    std::int64_t stall = 0;
    for (auto const& o : all) stall = std::max(stall, wire_reader(o.payload).svarint());
    schedule_->started(std::chrono::steady_clock::now(), std::chrono::nanoseconds(stall));
    wire_writer w;
    w.svarint(schedule_->next_rendezvous());
    return w.take();
}
CAIRN_DECL void checkpointer_core::overlap(std::int64_t step, const make_state& state,
                                           const save_notes& notes, time_point stalled_since) {
    try {
        begin(step, state, notes);
    } catch (...) {
        note_failure();  // reported at the next rendezvous, like failures in the background
    }
    stall_ = std::chrono::steady_clock::now() - stalled_since;
}
CAIRN_DECL void checkpointer_core::refuse_unpassed(checkpointer_call call,
                                                   std::int64_t step) noexcept {
    if (!gate_ || gate_->passed()) return;
    // At the end of a loop the last step is saved whether or not it was due.
    if (call == checkpointer_call::save_now && step == saving_step_) return before_update();
    std::exception_ptr why;
    try {
        why = std::make_exception_ptr(
            error(errc::invalid_argument,
                  {.rank = ranks().rank(),
                   .expected = "before_update() after the maybe_save of step " +
                               std::to_string(saving_step_) + ", before tensors change",
                   .found = "none before the call for step " + std::to_string(step),
                   .remedy = "call before_update in every step, before the optimizer's; or leave "
                             "checkpointer_options::overlap off"}));
    } catch (...) {  // no memory to say so
        why = std::current_exception();
    }
    gate_->refuse(why);
}

template <class Handler>
void checkpointer_core::start(std::shared_ptr<flattened_or_error> state, std::int64_t step,
                              const save_notes& notes, const checkpointer_parts& more,
                              std::shared_ptr<written_part> part, Handler handler) {
    auto const id = place_of(step);
    commit_record record;
    record.step = step;
    record.metrics = notes.metrics;
    recording_writer writer(parts_.store, options_.save.storage, catalog_, std::move(record),
                            std::move(part));
    if (group_->alone)
        start_save(
            std::move(state), id, options_.save,
            std::tuple<solo, recording_writer, staging_arena&>(solo(), std::move(writer), *arena_),
            std::move(handler), more);
    else
        start_save(std::move(state), id, options_.save,
                   std::tuple<any_communicator&, recording_writer, staging_arena&>(
                       group_->lane, std::move(writer), *arena_),
                   std::move(handler), more);
}

CAIRN_DECL void checkpointer_core::begin(std::int64_t step, const make_state& make,
                                         const save_notes& notes) {
    saving_step_ = step;
    auto const upload = std::exchange(upload_, {});  // told that there is no save, if it ends here
    // The other ranks duplicate the lane: they must not wait for one that lacks the memory for it.
    ranks().alone([&] {
        auto state = make();
        state->freeze_values();
        auto const staged = std::make_shared<std::promise<pending_save>>();
        auto const tick = [shown = activity_] { shown->advance(); };
        checkpointer_parts const more{
            parts_.spaces,
            parts_.sinks,
            std::make_shared<overlap_gate>(pulse(), tick, options_.save.exchange_timeout),
            plans_.slot(),
            parts_.names,
            upload.ended};
        // A handler may be destroyed without being called: nothing may wait for it.
        std::shared_ptr<overlap_gate> const told(
            more.gate.get(), [owner = more.gate](overlap_gate* gate) {
                gate->copied(std::make_exception_ptr(std::bad_alloc()));
            });
        auto handle = staged->get_future();
        start(std::move(state), step, notes, more, upload.part,
              [staged, told](std::exception_ptr e, pending_save p) {
                  told->copied(e);
                  if (e)
                      staged->set_exception(std::move(e));
                  else
                      staged->set_value(std::move(p));
              });
        handle_->staged = std::move(handle);
        gate_ = more.gate;
    });
    stall_ = {};
    earlier_ = earlier_save::writing;
}
CAIRN_DECL bool checkpointer_core::has_ended() {
    constexpr std::chrono::seconds no_time{0};
    if (handle_->staged.valid() && handle_->staged.wait_for(no_time) == std::future_status::ready)
        take_handle();
    return handle_->save && handle_->save.ready();
}
CAIRN_DECL void checkpointer_core::take_handle() {
    if (!handle_->staged.valid()) return;
    try {
        handle_->save = handle_->staged.get();
    } catch (...) {
        note_failure();
    }
}
CAIRN_DECL void checkpointer_core::note_failure() noexcept {
    earlier_ = earlier_save::failed;
    failure_ = std::current_exception();
    try {
        failures_ = failures_of(failure_, ranks().rank());
    } catch (...) {  // no memory: the coordinator says that it failed
        failures_.clear();
    }
}

CAIRN_DECL void checkpointer_core::finish_earlier() {
    before_update();  // refuses a forked child
    take_handle();
    if (!handle_->save) return;
    // The others may wait for this rank, whose save has not ended here: they have no part in what
    // is removed after a commit.
    if (!handle_->save.ready()) show(handle_->save.save_->working_on());
    try {
        report_ = handle_->save.wait();
        earlier_ = earlier_save::completed;
    } catch (...) {
        note_failure();
    }
    show(activity_);
}
CAIRN_DECL void checkpointer_core::show(std::shared_ptr<const activity> a) noexcept {
    try {
        if (a) group_->ref.share(std::move(a));
    } catch (...) {  // e.g. no memory: the others wait no longer than usual
    }
}
CAIRN_DECL void checkpointer_core::settle() {
    earlier_ = earlier_save::none;
    gate_.reset();
    stall_ = {};
    failure_ = nullptr;
    failures_.clear();
    try {
        for (auto* const warning : {&apart_warning_, &unremoved_warning_}) {
            if (report_ && !warning->empty()) report_->warnings.push_back(*warning);
            if (report_) warning->clear();
        }
        if (report_ && unreported_)  // a call between them, such as `load`, returns no report
            report_->warnings.insert(report_->warnings.begin(), unreported_->warnings.begin(),
                                     unreported_->warnings.end());
    } catch (...) {  // no memory: the next one says so
    }
    if (report_) unreported_ = std::exchange(report_, std::nullopt);
}

CAIRN_DECL std::optional<save_report> checkpointer_core::wait() {
    finish_earlier();
    // Alike on all ranks, as what follows.
    if (earlier_ != earlier_save::none || open_uploads() != 0)
        (void)agree(checkpointer_call::wait, 0);
    bool const untold = std::exchange(untold_, false);
    if (std::exchange(untold_upload_, false) || untold)
        throw all_failures(checkpointer_call::wait, {});
    auto report = std::exchange(unreported_, std::nullopt);
    if (!report && !tolerated_.empty()) report.emplace();  // a later save has been reported
    for (auto const& f : std::exchange(tolerated_, {})) report->warnings.push_back(f.text);
    return report;
}

/// Whether the next save, with the same state and options, must fail the same way.
inline bool must_repeat(const rank_failure& f) {
    for (auto const e :
         {errc::invalid_plan, errc::invalid_argument, errc::invalid_state, errc::unsupported})
        if (f.code == make_error_code(e)) return true;
    return false;
}
CAIRN_DECL bool checkpointer_core::tolerates(checkpointer_call call,
                                             const std::vector<rank_failure>& failures,
                                             std::int64_t failed) const {
    return call == checkpointer_call::maybe_save && failed < most_failed_ &&
           std::none_of(failures.begin(), failures.end(), must_repeat);
}
CAIRN_DECL void checkpointer_core::tolerate(const char* what, std::int64_t step,
                                            const std::vector<rank_failure>& failures) {
    constexpr std::size_t most = 1024;  // nobody need ever call wait
    ranks().alone([&] {
        for (auto const& f : failures) {
            if (tolerated_.size() == most) tolerated_.erase(tolerated_.begin());
            tolerated_.push_back(f);
            tolerated_.back().text =
                "the " + std::string(what) + " of step " + std::to_string(step) + ": " + f.text;
        }
    });
}
CAIRN_DECL error checkpointer_core::all_failures(checkpointer_call call,
                                                 std::vector<rank_failure> failures) {
    if (call == checkpointer_call::wait)
        for (auto& f : std::exchange(tolerated_, {})) failures.push_back(std::move(f));
    return error(std::move(failures), false);
}
CAIRN_DECL std::exception_ptr checkpointer_core::tolerated() const noexcept {
    try {
        return std::make_exception_ptr(error(tolerated_, false));
    } catch (...) {  // no memory
        return std::current_exception();
    }
}

}  // namespace cairn::detail

#endif
