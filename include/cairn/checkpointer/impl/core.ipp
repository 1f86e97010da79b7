// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_CORE_IPP
#define CAIRN_CHECKPOINTER_IMPL_CORE_IPP

#include <cairn/checkpointer/detail/core.hpp>

#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/verb/detail/stored_handler.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

namespace cairn::detail {

/// Returns the name of the checkpoint of a step.
inline checkpoint_id place_of(std::int64_t step) {
    return "step_" + std::to_string(step);
}

struct checkpointer_core::earlier_handle {
    std::future<pending_save> staged{};  ///< Once it is staged …
    pending_save save{};                 ///< … and taken.
};

CAIRN_DECL checkpointer_core::checkpointer_core(parts p, checkpointer_options options)
    : options_(std::move(options)), parts_(std::move(p)),
      group_(std::make_unique<group>(std::move(parts_.lane), parts_.alone, options_.save)),
      handle_(std::make_unique<earlier_handle>()) {
    (void)join(*group_, [&] {
        check_keep();
        check_upload();
        auto& to = options_.upload;
        catalog_ = std::make_shared<run_catalog>(
            with_place_ids(parts_.store, options_.keep, true),
            to ? std::optional<any_store>(to->to) : std::nullopt, std::chrono::seconds(10),
            run_catalog::numbers_since(std::chrono::system_clock::now()));
        if (to) {
            upload_catalog_ = std::make_shared<run_catalog>(with_place_ids(to->to, to->keep, true));
            // The first save is uploaded: the process before may not have got that far.
            saves_since_upload_ = to->every;
        }
        if (!options_.save.storage.sync_files) parts_.store = parts_.store.without_sync();
        check_failed_saves();
        arena_.emplace(options_.arena);
        signals_.emplace(options_.save_on_signal);
        schedule_.emplace(options_.every, options_.when_busy);
    });
}
/// Ranks that make a checkpointer and ranks that have one do the same: here they agree on the
/// outcome of the save that the latter had begun.
template <class F>
joint_report checkpointer_core::join(group& g, F&& prepare) {
    auto const mine = g.ranks.attempt([&] {
        check_coordinator(g.ranks.size());
        prepare();
        wire_writer w;
        w.svarint(options_.save.coordinator);
        w.svarint(options_.max_failed_saves);
        w.u8(options_.upload ? 1 : 0);
        rank_report r;
        r.call = checkpointer_call::join;
        r.earlier = earlier_;
        r.failures = failures_;
        w.raw(encode(r));
        return w.take();
    });
    auto const all = g.ranks.all_gather(mine);
    g.agreed =
        std::any_of(all.begin(), all.end(), [](auto const& o) { return !o.failures.empty(); });
    throw_failures(all);
    std::vector<rank_report> reports;
    std::int64_t most_failed = 0;
    for (auto const& o : all) {
        wire_reader its(o.payload);
        check_same_coordinator(its.svarint());
        auto const n = its.svarint();
        if (reports.size() == static_cast<std::size_t>(options_.save.coordinator)) most_failed = n;
        check_same_upload(its.u8() != 0);
        reports.push_back(decode_rank_report(its.raw(its.left())));
    }
    auto joint = join_reports(reports, static_cast<std::size_t>(options_.save.coordinator));
    g.ref.share(activity_);
    open_uploads(g);
    compare_disks(g);
    most_failed_ = most_failed;
    g.agreed = true;
    return joint;
}
CAIRN_DECL checkpoint_result checkpointer_core::replace_group(any_communicator lane, bool alone) {
    check_process();
    auto next = std::make_unique<group>(std::move(lane), alone, options_.save);
    auto joint = join(*next, [] {});
    checkpoint_result r;
    while (open_uploads() != 0) {
        auto u = group_->uploads->take_oldest();
        if (!u.saved) continue;  // the failure of its save is told
        if (!u.failure) {
            r.uploaded = note_upload(std::move(u));
            continue;
        }
        saves_since_upload_ = options_.upload->every;
        tolerate("upload", u.step, failures_of(u.failure, ranks().rank()));
    }
    uploads_earlier_ = false;
    upload_ = {};
    remove_all_local();
    catalog_->look_again();
    group_ = std::move(next);
    settle();
    r.completed = std::exchange(unreported_, std::nullopt);
    bool const failed = joint.earlier == earlier_save::failed;
    if (failed) r.failures = or_unknown(std::move(joint.failures));
    // Some ranks may be new: what the others remember must not decide what all do, so it is
    // reported now.
    for (auto& f : std::exchange(tolerated_, {})) r.failures.push_back(std::move(f));
    failed_in_a_row_ = failed_uploads_ = 0;
    untold_ = untold_upload_ = false;
    plans_.clear();
    schedule_->settled(failed);
    schedule_->restart();
    next_ = checkpoint_schedule::next_call;
    last_step_.reset();
    latest_.reset();
    return r;
}
/// Without memory to say what it was, a rank says only that its save failed.
CAIRN_DECL std::vector<rank_failure> checkpointer_core::or_unknown(
    std::vector<rank_failure> failures) const {
    if (failures.empty())
        failures.push_back(error(errc::rank_failed, {.found = "a save that failed"})
                               .as_failure(options_.save.coordinator));
    return failures;
}
CAIRN_DECL void checkpointer_core::check_coordinator(int size) const {
    auto const c = options_.save.coordinator;
    if (c >= 0 && c < size) return;
    throw error(errc::invalid_argument,
                {.expected = "a coordinator from 0 to " + std::to_string(size - 1),
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
CAIRN_DECL void checkpointer_core::check_upload() const {
    if (!options_.upload) return;
    auto const& u = *options_.upload;
    if (u.every < 1)
        throw error(errc::invalid_argument, {.expected = "upload_options::every of 1 or more",
                                             .found = std::to_string(u.every)});
    auto there = [](any_store s) { return s.describe("."); };
    for (auto const* store : {&parts_.store, &u.to})
        if (!store->browsable())
            throw error(errc::invalid_argument,
                        {.file = there(*store),
                         .expected = "stores that can list their places, because both are searched",
                         .found = "one that cannot",
                         .remedy = "give the store places() and remove_place(id) "
                                   "(BrowsableStore)"});
    auto const to = there(u.to);
    bool const tells = to.starts_with('/') || to.find("://") != to.npos;  // not: "memory"
    if (tells && there(parts_.store) == to)
        throw error(errc::invalid_argument, {.file = to,
                                             .expected = "another place to upload to",
                                             .found = "that of the checkpointer"});
}
CAIRN_DECL void checkpointer_core::check_same_upload(bool other) const {
    if (other == options_.upload.has_value()) return;
    throw error(errc::invalid_argument,
                {.expected = "checkpointer_options::upload on all ranks, or on none",
                 .found = other ? "none on this rank" : "none on another rank"});
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
    if (!home_.is_this()) return;  // nothing ends in a forked child
    bool const cancelled = options_.destruction == destruction_policy::cancel;
    upload_ = {};
    take_handle();
    if (cancelled && handle_->save) handle_->save.cancel();  // before it may commit
    before_update();
    auto const& unclaimed = options_.save.on_unclaimed_error;
    bool completed = false;
    if (failure_) report_unclaimed(unclaimed, failure_);
    if (handle_->save) {
        try {
            (void)handle_->save.wait();
            completed = true;
        } catch (const error& e) {
            if (!cancelled || e.code() != make_error_code(errc::cancelled))
                report_unclaimed(unclaimed, std::current_exception());
        } catch (...) {
            report_unclaimed(unclaimed, std::current_exception());
        }
    }
    end_uploads(cancelled);
    if ((untold_ && !completed) || untold_upload_) report_unclaimed(unclaimed, tolerated());
}

CAIRN_DECL void checkpointer_core::check_process() const {
    if (home_.is_this()) return;
    throw error(errc::invalid_argument, {.expected = "a checkpointer of this process",
                                         .found = "one made before fork()",
                                         .remedy = "make a new one in the child process"});
}
CAIRN_DECL rendezvous_answer checkpointer_core::meet(checkpointer_call call, std::int64_t step) {
    check_process();
    if (gate_) while_shown("plan", [&] { gate_->await_plan(); });  // the lane is being duplicated
    auto const mine = ranks().alone([&] {
        if (has_ended()) finish_earlier();
        rank_report r{call,           step,     earlier_, signals_->any(), signals_->look(),
                      stall_.count(), failures_};
        std::exception_ptr why;
        if (group_->uploads) r.upload = group_->uploads->oldest(why);
        if (why) r.upload_failures = failures_of(why, ranks().rank());
        return outcome{{}, encode(r)};
    });
    outcome told;
    try {
        auto const all = ranks().gather(mine);
        told = ranks().told([&] { return encode(answer(all)); });
    } catch (...) {
        if (failures_.empty()) throw;
        // The earlier save may have broken the group: its failure says why.
        auto failures = failures_of(std::current_exception(), ranks().rank());
        failures.insert(failures.end(), failures_.begin(), failures_.end());
        failure_ = nullptr;  // it is told
        throw error(std::move(failures), false);
    }
    if (!told.failures.empty()) throw error(told.failures, false);
    return ranks().alone([&] { return decode_rendezvous_answer(told.payload); });
}

/// On the coordinator.
CAIRN_DECL rendezvous_answer checkpointer_core::answer(const std::vector<outcome>& all) {
    std::vector<rank_report> reports;
    for (auto const& o : all) reports.push_back(decode_rank_report(o.payload));
    auto const me = static_cast<std::size_t>(ranks().rank());
    auto joint = join_reports(reports, me);
    if (joint.stall > 0) schedule_->stalled(std::chrono::nanoseconds(joint.stall));
    auto const call = reports[me].call;
    rendezvous_answer a;
    if (call == checkpointer_call::maybe_save || call == checkpointer_call::save_now)
        a.signals = joint.signals;
    auto left = open_uploads();
    if (joint.upload == earlier_save::completed || joint.upload == earlier_save::failed) {
        a.uploaded = joint.upload;
        --left;
    }
    if (a.uploaded == earlier_save::failed) {
        a.upload_failures = or_unknown(std::move(joint.upload_failures));
        saves_since_upload_ = options_.upload->every;
        // It is thrown: nothing else happens in this call.
        if (!goes_on(call, a, a.upload_failures, failed_uploads_)) {
            a.next = checkpoint_schedule::next_call;
            return a;
        }
    }
    if (call == checkpointer_call::maybe_save || call == checkpointer_call::save_now) {
        auto const step = reports[me].step;
        if (step < 0)
            throw error(errc::invalid_argument, {.expected = "a step of 0 or more",
                                                 .found = "step " + std::to_string(step)});
        auto const now = std::chrono::steady_clock::now();
        a.decided = schedule_->decide({step, now, joint.earlier, joint.signals != 0,
                                       joint.heeds_signals, call == checkpointer_call::save_now});
        // The sender of a signal may end the job as soon as the signal is acknowledged, which
        // requires the copies.
        a.overlapped = options_.overlap && a.decided.what == action::save &&
                       call == checkpointer_call::maybe_save && joint.signals == 0;
        // How long it stops training is known, and reported, at the next rendezvous.
        if (a.overlapped) schedule_->started(now, {});
        if (options_.upload && a.decided.what == action::save)
            a.upload =
                upload_due(call == checkpointer_call::save_now || joint.signals != 0, left != 0);
    } else if (joint.earlier == earlier_save::writing) {
        if (call != checkpointer_call::plan) a.decided.what = action::wait;
    } else {
        bool const failed = joint.earlier == earlier_save::failed;
        if (failed) a.decided.what = action::fail;
        a.decided.settled = joint.earlier != earlier_save::none;
        schedule_->settled(failed);
        bool const loads = call == checkpointer_call::load || call == checkpointer_call::latest;
        if (loads && !failed) schedule_->restart();
        // A save that has just failed is not uploaded.
        if (failed && uploads_earlier_ && left != 0) --left;
        if (call == checkpointer_call::wait && !failed && left != 0) a.decided.what = action::wait;
    }
    a.next = schedule_->next_rendezvous();
    if (options_.upload && a.decided.settled) a.removed = catalog_->take_removed();
    if (a.decided.what != action::fail) return a;
    a.failures = or_unknown(std::move(joint.failures));
    return a;
}

CAIRN_DECL auto checkpointer_core::agree(checkpointer_call call, std::int64_t step) -> agreement {
    agreement all;
    for (;;) {
        all.answer = meet(call, step);
        auto const& decided = all.answer.decided;
        if (!all.since) all.since = std::chrono::steady_clock::now();
        next_ = all.answer.next;
        if (all.answer.uploaded != earlier_save::none) settle_upload(call, all);
        if (decided.settled) settle();
        if (decided.what == action::fail) {
            drop_upload();
            auto& failures = all.answer.failures;
            bool const on = goes_on(call, all.answer, failures, failed_in_a_row_);
            ++failed_in_a_row_;
            untold_ = on;
            if (!on) throw all_failures(call, std::move(failures));
            tolerate("save", saving_step_, failures);
            for (auto& f : failures) all.tolerated.push_back(std::move(f));
            continue;  // nothing prevents this step from being saved
        }
        if (decided.settled) {
            failed_in_a_row_ = 0;
            untold_ = false;
            uploads_earlier_ = false;
            note_local(all.answer.removed);
        }
        if (decided.what != action::wait) return all;
        finish_earlier();
        if (call == checkpointer_call::wait)
            await_uploads([](uploads& earlier, auto const& now_and_then) {
                earlier.finish_oldest(now_and_then);
            });
    }
}

CAIRN_DECL checkpoint_result checkpointer_core::at_step(checkpointer_call call, std::int64_t step,
                                                        const make_state& state,
                                                        const save_notes& notes) {
    check_process();
    // Alike on all ranks, as long as they make the same calls.
    bool const meets =
        call == checkpointer_call::save_now || step >= next_ || (last_step_ && step < *last_step_);
    last_step_ = step;
    checkpoint_result r;
    auto const earlier = stopped_;
    if (!meets) {
        refuse_unpassed(call, step);
        r.stall = earlier;
    } else {
        auto const from = std::chrono::steady_clock::now();
        refuse_unpassed(call, step);
        r = meet_at_step(call, step, state, notes);
        r.stall = earlier + (std::chrono::steady_clock::now() - from);
    }
    stopped_ = {};
    return r;
}
CAIRN_DECL checkpoint_result checkpointer_core::meet_at_step(checkpointer_call call,
                                                             std::int64_t step,
                                                             const make_state& state,
                                                             const save_notes& notes) {
    checkpoint_result r;
    auto all = agree(call, step);
    r.postponed = all.answer.decided.postponed;
    r.failures = std::move(all.tolerated);
    r.uploaded = std::move(all.uploaded);
    if (all.answer.decided.what == action::save) {
        std::vector<rank_failure> failures;
        // One may be on its way while the next one waits: each holds a checkpoint here. Who sends
        // a signal may not wait so long.
        await_uploads([&](uploads& earlier, auto const& now_and_then) {
            constexpr auto any = static_cast<std::size_t>(-1);
            bool const waits = all.answer.upload && all.answer.signals == 0;
            earlier.finish(place_of(step), waits ? 1 : any, now_and_then);
        });
        latest_.reset();  // it may have that name
        uploads_earlier_ = all.answer.upload;
        ranks().alone([&] {
            if (uploads_earlier_)
                upload_ = group_->uploads->add(place_of(step), step);
            else if (options_.upload)
                upload_.part = std::make_shared<written_part>();
            // A failed save may not have removed what it has written here.
            if (part_ && may_be_apart(*group_)) add_local(*part_, true);
            part_ = upload_.part;
            if (part_) part_->apart = group_->apart;
        });
        if (all.answer.overlapped)
            overlap(step, state, notes, *all.since);
        else
            failures = save(call, step, state, notes, *all.since, r.failures.size());
        r.saved = failures.empty();
        for (auto& f : failures) r.failures.push_back(std::move(f));
    }
    // A signal that asked for a save which was not made asks again.
    if (r.saved || all.answer.decided.what != action::save) {
        signals_->acknowledge(all.answer.signals);
        r.signals = numbers_of(all.answer.signals);
    }
    r.completed = std::exchange(unreported_, std::nullopt);
    return r;
}

}  // namespace cairn::detail

#endif
