// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_CORE_IPP
#define CAIRN_CHECKPOINTER_IMPL_CORE_IPP

#include <cairn/checkpointer/core.hpp>

#include <cairn/comm/solo.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/stored_handler.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/save/start_save.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <string>
#include <tuple>
#include <utility>

namespace cairn::detail {

/// All failures of an exception: those of each rank, if it has crossed ranks.
inline std::vector<rank_failure> failures_of(const std::exception_ptr& e, int rank) {
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        if (!x.failures().empty()) return x.failures();
    } catch (...) {
    }
    return {failure_from(e, rank)};
}

CAIRN_DECL checkpointer_core::checkpointer_core(parts p, checkpointer_options options)
    : options_(std::move(options)), parts_(std::move(p)),
      ranks_(lane_, options_.save.coordinator, options_.save.exchange_timeout) {
    auto const mine = ranks_.attempt([&] {
        check_coordinator();
        check_keep();
        check_failed_saves();
        arena_.emplace(options_.arena);
        signals_.emplace(options_.save_on_signal);
        schedule_.emplace(options_.every, options_.when_busy);
        wire_writer w;
        w.svarint(options_.save.coordinator);
        w.svarint(options_.max_failed_saves);
        return w.take();
    });
    auto const all = ranks_.all_gather(mine);
    bool const failed =
        std::any_of(all.begin(), all.end(), [](auto const& o) { return !o.failures.empty(); });
    if (failed) doubt_.lane = nullptr;
    throw_failures(all);
    for (auto const& o : all) check_same_coordinator(wire_reader(o.payload).svarint());
    wire_reader its(all[static_cast<std::size_t>(options_.save.coordinator)].payload);
    (void)its.svarint();
    most_failed_ = its.svarint();
    lane_.share(activity_);
    doubt_.lane = nullptr;
}
CAIRN_DECL void checkpointer_core::check_coordinator() const {
    auto const c = options_.save.coordinator;
    if (c >= 0 && c < ranks_.size()) return;
    throw error(errc::invalid_argument,
                {.expected = "a coordinator from 0 to " + std::to_string(ranks_.size() - 1),
                 .found = std::to_string(c)});
}
CAIRN_DECL void checkpointer_core::check_keep() const {
    if (options_.keep.keeps_all() || parts_.store.browsable()) return;
    throw error(errc::invalid_argument,
                {.expected = "checkpointer_options::keep to keep all checkpoints, because the "
                             "store cannot list them",
                 .found = "rules",
                 .remedy = "give the store places() and remove_place(id) (BrowsableStore)"});
}
CAIRN_DECL void checkpointer_core::check_failed_saves() const {
    if (options_.max_failed_saves >= 0) return;
    throw error(errc::invalid_argument,
                {.expected = "checkpointer_options::max_failed_saves of 0 or more",
                 .found = std::to_string(options_.max_failed_saves)});
}
CAIRN_DECL void checkpointer_core::check_same_coordinator(std::int64_t other) const {
    if (other == options_.save.coordinator) return;
    throw error(errc::invalid_argument,
                {.expected = "the same save_options::coordinator on all ranks",
                 .found = std::to_string(options_.save.coordinator) + " on this rank, " +
                          std::to_string(other) + " on another"});
}

CAIRN_DECL checkpointer_core::~checkpointer_core() {
    bool const cancelled = options_.destruction == destruction_policy::cancel;
    take_handle();
    if (cancelled && pending_) pending_.cancel();  // before it may commit
    before_update();
    auto const& unclaimed = options_.save.on_unclaimed_error;
    if (failure_) report_unclaimed(unclaimed, failure_);
    if (!pending_) return;
    try {
        (void)pending_.wait();
    } catch (const error& e) {
        if (!cancelled || e.code() != make_error_code(errc::cancelled))
            report_unclaimed(unclaimed, std::current_exception());
    } catch (...) {
        report_unclaimed(unclaimed, std::current_exception());
    }
}

/// Gives all ranks what `f` returns on the coordinator, or the failures of what it throws.
template <class F>
outcome checkpointer_core::answered(F&& f) {
    outcome o;
    if (ranks_.coordinator()) {
        try {
            o.payload = f();
        } catch (...) {
            o.failures = failures_of(std::current_exception(), ranks_.rank());
        }
    }
    return ranks_.broadcast(o);
}

CAIRN_DECL rendezvous_answer checkpointer_core::meet(checkpointer_call call, std::int64_t step) {
    if (gate_) gate_->await_plan();  // until then the lane is being duplicated
    auto const mine = ranks_.alone([&] {
        if (has_ended()) finish_earlier();
        return encode(rank_report{call, step, earlier_, signals_->any(), signals_->look(),
                                  stall_.count(), failures_});
    });
    auto const all = ranks_.gather({{}, mine});
    auto const told = answered([&] { return encode(answer(all)); });
    if (!told.failures.empty()) throw error(told.failures, false);
    return ranks_.alone([&] { return decode_rendezvous_answer(told.payload); });
}

/// On the coordinator.
CAIRN_DECL rendezvous_answer checkpointer_core::answer(const std::vector<outcome>& all) {
    std::vector<rank_report> reports;
    for (auto const& o : all) reports.push_back(decode_rank_report(o.payload));
    auto const me = static_cast<std::size_t>(ranks_.rank());
    auto joint = join_reports(reports, me);
    if (joint.stall > 0) schedule_->stalled(std::chrono::nanoseconds(joint.stall));
    auto const call = reports[me].call;
    rendezvous_answer a;
    if (call == checkpointer_call::maybe_save || call == checkpointer_call::save_now) {
        auto const step = reports[me].step;
        if (step < 0)
            throw error(errc::invalid_argument, {.expected = "a step of 0 or more",
                                                 .found = "step " + std::to_string(step)});
        auto const now = std::chrono::steady_clock::now();
        a.decided = schedule_->decide({step, now, joint.earlier, joint.signals != 0,
                                       joint.heeds_signals, call == checkpointer_call::save_now});
        a.overlapped = options_.overlap && a.decided.what == action::save &&
                       call == checkpointer_call::maybe_save;
        // How long it stops the training is known, and told, at the next rendezvous.
        if (a.overlapped) schedule_->started(now, {});
        // If nothing is saved although signals arrived, this step has been saved before.
        if (a.decided.what == action::save || a.decided.what == action::none)
            a.signals = joint.signals;
    } else if (joint.earlier == earlier_save::writing) {
        if (call != checkpointer_call::plan) a.decided.what = action::wait;
    } else {
        bool const failed = joint.earlier == earlier_save::failed;
        if (failed) a.decided.what = action::fail;
        a.decided.settled = joint.earlier != earlier_save::none;
        schedule_->settled(failed);
        bool const loads = call == checkpointer_call::load || call == checkpointer_call::latest;
        if (loads && !failed) schedule_->restart();
    }
    a.next = schedule_->next_rendezvous();
    if (a.decided.what != action::fail) return a;
    a.failures = std::move(joint.failures);
    if (a.failures.empty())  // there was no memory to say what it was
        a.failures.push_back(
            error(errc::rank_failed, {.found = "a save that failed"}).as_failure(ranks_.rank()));
    return a;
}

CAIRN_DECL auto checkpointer_core::agree(checkpointer_call call, std::int64_t step) -> agreement {
    agreement all;
    for (;;) {
        all.answer = meet(call, step);
        auto const& decided = all.answer.decided;
        if (!all.since) all.since = std::chrono::steady_clock::now();
        next_ = all.answer.next;
        if (decided.settled) all.completed = settle();
        if (decided.what == action::fail) {
            bool const tolerated = tolerates(call);
            ++failed_in_a_row_;
            if (!tolerated) throw error(std::move(all.answer.failures), false);
            all.tolerated = std::move(all.answer.failures);
            continue;  // nothing keeps this step from being saved
        }
        if (decided.settled) failed_in_a_row_ = 0;
        if (decided.what != action::wait) return all;
        finish_earlier();
    }
}

CAIRN_DECL checkpoint_result checkpointer_core::at_step(checkpointer_call call, std::int64_t step,
                                                        const make_state& state,
                                                        const save_notes& notes) {
    checkpoint_result r;
    refuse_unpassed(call, step);
    // Alike on all ranks, as long as they make the same calls.
    bool const meets =
        call == checkpointer_call::save_now || step >= next_ || (last_step_ && step < *last_step_);
    last_step_ = step;
    if (!meets) return r;
    auto all = agree(call, step);
    r.completed = std::move(all.completed);
    r.postponed = all.answer.decided.postponed;
    r.failures = std::move(all.tolerated);
    if (all.answer.decided.what == action::save) {
        std::vector<rank_failure> failures;
        if (all.answer.overlapped)
            overlap(step, state, notes, *all.since);
        else
            failures = save(call, step, state, notes, *all.since);
        r.saved = failures.empty();
        for (auto& f : failures) r.failures.push_back(std::move(f));
    }
    signals_->acknowledge(all.answer.signals);
    r.signals = numbers_of(all.answer.signals);
    return r;
}

CAIRN_DECL std::vector<rank_failure> checkpointer_core::save(checkpointer_call call,
                                                             std::int64_t step,
                                                             const make_state& state,
                                                             const save_notes& notes,
                                                             time_point stalled_since) {
    outcome mine;
    try {
        begin(step, state, notes);
        await_copies();
        take_handle();
        wire_writer w;
        w.svarint((std::chrono::steady_clock::now() - stalled_since).count());
        mine.payload = w.take();
    } catch (...) {
        ranks_.alone([&] { mine.failures = failures_of(std::current_exception(), ranks_.rank()); });
    }
    if (gate_) gate_->pass();  // before the call returns no tensor changes
    // A rank may have failed alone: all learn it in this call.
    outcome told;
    try {
        auto const all = ranks_.gather(mine);
        told = answered([&] { return staged(call, all); });
    } catch (...) {
        // If the group has failed, the failure of the save says why.
        if (!mine.failures.empty()) throw error(std::move(mine.failures), false);
        throw;
    }
    if (told.failures.empty()) {
        next_ = ranks_.alone([&] { return wire_reader(told.payload).svarint(); });
        return {};
    }
    pending_.cancel();
    finish_earlier();  // it fails likewise
    (void)settle();
    next_ = checkpoint_schedule::next_call;
    bool const tolerated = tolerates(call);
    ++failed_in_a_row_;
    if (!tolerated) throw error(told.failures, false);
    return std::move(told.failures);
}
/// Other ranks that have staged theirs wait for this one, which may write what has no room.
CAIRN_DECL void checkpointer_core::await_copies() {
    constexpr std::chrono::milliseconds longest{1000}, shortest{1};
    auto const period = std::clamp(options_.save.exchange_timeout / 4, shortest, longest);
    activity_->enter("copy");
    gate_->await_copies(period, [this] { activity_->advance(); });
    activity_->enter("training");
}
/// On the coordinator. @return where the ranks meet next
CAIRN_DECL std::vector<std::byte> checkpointer_core::staged(checkpointer_call call,
                                                            const std::vector<outcome>& all) {
    if (auto failures = collect_failures(all); !failures.empty()) {
        tolerates(call) ? schedule_->given_up() : schedule_->refused();
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
        note_failure();  // told at the next rendezvous, as what fails in the background
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
                  {.rank = ranks_.rank(),
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
                              Handler handler) {
    auto const id = "step_" + std::to_string(step);
    commit_record record;
    record.step = step;
    record.metrics = notes.metrics;
    recording_writer writer(parts_.store, options_.save.storage, catalog_, std::move(record));
    if (parts_.alone)
        start_save(
            std::move(state), id, options_.save,
            std::tuple<solo, recording_writer, staging_arena&>(solo(), std::move(writer), *arena_),
            std::move(handler), more);
    else
        start_save(std::move(state), id, options_.save,
                   std::tuple<any_communicator&, recording_writer, staging_arena&>(
                       parts_.lane, std::move(writer), *arena_),
                   std::move(handler), more);
}

CAIRN_DECL void checkpointer_core::begin(std::int64_t step, const make_state& make,
                                         const save_notes& notes) {
    // The other ranks duplicate the lane: they must not wait for one that has no memory to.
    ranks_.alone([&] {
        auto state = make();
        state->freeze_objects();
        auto const staged = std::make_shared<std::promise<pending_save>>();
        checkpointer_parts const more{parts_.spaces, parts_.sinks, std::make_shared<overlap_gate>(),
                                      plans_.slot()};
        // A handler may be destroyed without a call: nobody must wait for it.
        std::shared_ptr<overlap_gate> const told(
            more.gate.get(), [owner = more.gate](overlap_gate* gate) {
                gate->copied(std::make_exception_ptr(std::bad_alloc()));
            });
        auto handle = staged->get_future();
        start(std::move(state), step, notes, more,
              [staged, told](std::exception_ptr e, pending_save p) {
                  told->copied(e);
                  if (e)
                      staged->set_exception(std::move(e));
                  else
                      staged->set_value(std::move(p));
              });
        handle_ = std::move(handle);
        gate_ = more.gate;
    });
    saving_step_ = step;
    stall_ = {};
    earlier_ = earlier_save::writing;
}
CAIRN_DECL bool checkpointer_core::has_ended() {
    constexpr std::chrono::seconds no_time{0};
    if (handle_.valid() && handle_.wait_for(no_time) == std::future_status::ready) take_handle();
    return pending_ && pending_.ready();
}
CAIRN_DECL void checkpointer_core::take_handle() {
    if (!handle_.valid()) return;
    try {
        pending_ = handle_.get();
    } catch (...) {
        note_failure();
    }
}
CAIRN_DECL void checkpointer_core::note_failure() noexcept {
    earlier_ = earlier_save::failed;
    failure_ = std::current_exception();
    try {
        failures_ = failures_of(failure_, ranks_.rank());
    } catch (...) {  // no memory: the coordinator says that it failed
        failures_.clear();
    }
}

CAIRN_DECL void checkpointer_core::finish_earlier() {
    before_update();
    take_handle();
    if (!pending_) return;
    try {
        report_ = pending_.wait();
        earlier_ = earlier_save::completed;
    } catch (...) {
        note_failure();
    }
}
CAIRN_DECL std::optional<save_report> checkpointer_core::settle() {
    earlier_ = earlier_save::none;
    gate_.reset();
    stall_ = {};
    failure_ = nullptr;
    failures_.clear();
    return std::exchange(report_, std::nullopt);
}

CAIRN_DECL std::optional<save_report> checkpointer_core::wait() {
    if (earlier_ == earlier_save::none) return std::nullopt;  // alike on all ranks
    finish_earlier();
    return agree(checkpointer_call::wait, 0).completed;
}

}  // namespace cairn::detail

#endif
