// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_SAVE_OP_IPP
#define CAIRN_SAVE_IMPL_SAVE_OP_IPP

#include <cairn/save/detail/save_op.hpp>

#include <cairn/comm/detail/omitted.hpp>
#include <cairn/mapping/detail/digest.hpp>
#include <cairn/mapping/detail/lines.hpp>
#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/planner/results_codec.hpp>
#include <cairn/save/detail/change_check.hpp>
#include <cairn/save/detail/item_sources.hpp>
#include <cairn/save/detail/overlap_gate.hpp>
#include <cairn/save/detail/place_results.hpp>
#include <cairn/verb/detail/called_verb.hpp>
#include <cairn/verb/detail/post_to.hpp>

namespace cairn::detail {

CAIRN_DECL save_op::save_op(surroundings in, std::shared_ptr<const flattened_or_error> state,
                            checkpoint_id id, save_options options, save_parts parts,
                            std::function<void()> staged, ended then)
    : collective_op(std::move(in), *parts.ranks, options.coordinator, options.exchange_timeout,
                    parts.sinks, std::move(then)),
      state_(std::move(state)), id_(std::move(id)), options_(std::move(options)),
      parts_(std::move(parts)), on_staged_(std::move(staged)), plans_(parts_.plans) {
    if (!parts_.devices) parts_.devices = no_memory_spaces(state_->leaves());
    if (parts_.gate) parts_.gate->works(clock_.activity());
}

CAIRN_DECL save_op::~save_op() {
    if (running()) fail(executor_ended("save"));
}

/// Lets the writer write: `start` calls it with a completion.
template <class Start>
std::optional<save_fsm::event> save_op::writes(const Start& start) {
    clock_.enter("write");
    clock_.expect([this] { return content(plan_); });
    call_part<write_results>(in_.executor, start,
                             [self = shared_from_this()](call_result<write_results> r) {
                                 if (!r.failure) self->clock_.moved_rest();
                                 self->clock_.stop();
                                 self->results_ = std::move(r);
                                 self->await_update();
                             });
    return {};
}
CAIRN_DECL std::optional<save_fsm::event> save_op::perform(step s) {
    using enum save_fsm::step;
    switch (s) {
        case open: return starts([&] { this->open(); });
        case plan_local:
            return worked("plan", [&] {
                set_up();
                auto local = parts_.writer->prepare_local_save_plan(
                    parts_.planner->create_local_save_plan());
                check_names(local);
                check_sendable(local, ranks_->rank());
                auto sources = sources_of(local, state_->leaves(), state_->mapped);
                return plans_.send_local(
                    std::move(local),
                    plan_key(*parts_.planner, options_, ranks_->rank(), ranks_->size()),
                    std::move(sources));
            });
        case exchange_plans: return starts([&] { gather_outcomes(); });
        case plan_global:
            return worked("plan for all", [&] {
                plans_.join(everybody_, *parts_.planner, *parts_.writer, options_);
                // Before other processes of this host write to a disk that may have been full.
                await_space();
                return std::vector<std::byte>();
            });
        case exchange_global:
            return starts([&] {
                scatter_messages([this](std::size_t rank) { return plans_.answer(rank); }, answer_);
            });
        case stage:
            return works(
                "stage", [this](auto f) { begin_staging(std::move(f)); },
                [this] { return staged(); });
        case write:
            return writes([&](auto done) {
                items_ = data_;  // a member: the writer may refer to it until it is done
                if (writes_tensors_ && parts_.writer->releases())
                    return parts_.writer->write_data(plan_, items_, released_, std::move(done));
                parts_.writer->write_data(plan_, items_, std::move(done));
            });
        case exchange_results:
            on_staged_ = nullptr;  // it was called, or never will be
            all_written();
            if (parts_.gate && !mine_.failures.empty())
                parts_.gate->copied(std::make_exception_ptr(error(mine_.failures, false)));
            return starts([&] {
                doubt_ = std::make_exception_ptr(error({in_doubt("out of memory")}, false));
                gather_outcomes();
            });
        case commit: return this->commit();
        case query: return this->query();
        case exchange_verdict: return starts([&] { send_verdict(); });
        case resolve: return resolve_outcome();
        case abandon: return this->abandon();
        case exchange_abandoned: return starts([&] { acknowledge(); });
        case sweep: return this->sweep();
        case done: return event::ok;
    }
    return event::failed;
}

CAIRN_DECL void save_op::open() {
    outcome o;
    if (ranks_->coordinator())
        o = attempt(ranks_->rank(), [&] {
            wire_writer w;
            put_call(w, called_verb::save, id_);
            w.string(in_.new_id());
            w.string(plans_.offer());
            if (ranks_->size() > 1) w.u64(map::detail::digest(parts_.names.get()));
            return w.take();
        });
    ranks_->broadcast(o, received<outcome>([this](outcome told) {
                          if (!told.failures.empty()) return told.failures;
                          wire_reader r(told.payload);
                          coordinators_id_ = get_call(r, called_verb::save);
                          report_.save_id = r.string();
                          plans_.offered(r.string());
                          if (ranks_->size() > 1) coordinators_mapping_ = r.u64();
                          return std::vector<rank_failure>();
                      }));
}

CAIRN_DECL void save_op::set_up() {
    if (state_->refused) std::rethrow_exception(state_->refused);
    parts_.devices->check(parts_.planner->needs_memory_spaces());
    check_same_id(id_, coordinators_id_);
    if (!ranks_->coordinator()) map::detail::check_same(parts_.names.get(), coordinators_mapping_);
    parts_.writer->reset(id_);
    begun_ = true;
    parts_.planner->set_up_save(state_->leaves(), ranks_->rank(), ranks_->coordinator());
    // No rank creates a file before all have planned, so this save finds the space that the last
    // one has freed.
    await_space();
    storage_setup const me{ranks_->rank(),  ranks_->size(),    ranks_->coordinator(),
                           report_.save_id, clock_.activity(), stop_.get_token()};
    parts_.writer->set_up_writer(me);
}

/// Returns when the files that this process has removed take no space any more.
CAIRN_DECL void save_op::await_space() const {
    removed_space::of_process().wait([this] { clock_.activity()->advance(); });
}

/// Returns the bytes and items that a plan writes.
CAIRN_DECL std::pair<std::uint64_t, std::uint64_t> save_op::content(const save_plan& plan) {
    std::uint64_t bytes = 0;
    for (auto const& item : plan.items)
        if (item.tied_to.empty()) bytes += item.content_bytes();
    return {bytes, plan.items.size()};
}
/// Collects what this rank writes, and copies tensors on devices and, in the background, all
/// tensors, which are then not used afterwards.
/// @param copied  Called when no copy is under way any more.
CAIRN_DECL void save_op::begin_staging(polling::then copied) {
    std::exception_ptr failure;
    try {
        heed_cancellation();
        plans_.receive(std::exchange(answer_, {}));
        plan_ = parts_.planner->finish_save_plan(plans_.sent());
        data_.clear();
        data_.reserve(plan_.items.size());
        for (auto const& item : plan_.items) data_.push_back(parts_.planner->resolve_data(item));
        check_described(plan_, data_);
        if (parts_.changes) parts_.changes->expect(plan_.items, data_);
        bool const background = on_staged_ != nullptr;
        if (background) clock_.expect([this] { return content(plan_); });
        staging_.copies().begin(plan_.items, data_, parts_.stager, background, *parts_.devices,
                                *clock_.activity());
        staging_.hashes().begin(plans_.held(), plans_.local(), state_->leaves(), report_.save_id,
                                *parts_.devices, *clock_.activity());
        if (parts_.gate && staging_.copies().left_out().empty())
            staging_.when_enqueued([this] { parts_.gate->enqueued(parts_.devices); });
    } catch (...) {  // copies may have begun
        failure = std::current_exception();
    }
    staging_.wait(failure, options_.exchange_timeout, std::move(copied));
}
CAIRN_DECL std::vector<std::byte> save_op::staged() {
    staging_.copies().finish();
    if (on_staged_) clock_.moved_rest();
    hashes_ = staging_.hashes().take();
    await_release(staging_.copies().left_out());
    if (!writes_tensors_) tell_staged();
    return {};
}
/// Items for which the copy has no room are written from the tensors, which may change once the
/// writer has released the items, or has ended.
CAIRN_DECL void save_op::await_release(const std::vector<std::uint32_t>& items) {
    if (items.empty()) return;
    left_out_.assign(data_.size(), false);
    for (auto const i : items) left_out_[i] = true;
    unwritten_ = items.size();
    released_ = [this](std::uint32_t i) {  // the writer's completion keeps this alive
        if (!left_out_[i]) return;
        if (parts_.changes) parts_.changes->compare(plan_.items[i], i, data_[i]);
        if (--unwritten_ != 0) return;
        try {
            post_to(in_.executor, posted_call::of<&save_op::all_written>(shared_from_this()));
        } catch (...) {  // no memory: they count as in use until the writer has ended
        }
    };
    writes_tensors_ = true;
}
/// Called when the writer does not use the tensors any more.
CAIRN_DECL void save_op::all_written() {
    writes_tensors_ = false;
    tell_staged();
    if (auto const f = std::exchange(when_written_, nullptr)) f();
}

CAIRN_DECL void save_op::tell_staged() {
    if (!on_staged_) return;
    if (parts_.gate) parts_.gate->copied();
    std::exchange(on_staged_, nullptr)();
}

/// Continues once training has waited for the copies.
CAIRN_DECL void save_op::await_update() {
    if (results_.failure || !parts_.gate) return go_on();
    if (writes_tensors_ && unwritten_ == 0) all_written();  // there was no memory to post it
    try {
        parts_.gate->when_passed(
            [self = shared_from_this()] { resume_on<&save_op::go_on>(self->in_.executor, self); });
    } catch (...) {
        resume([]() -> event { throw; });
    }
}
/// Checks items that were written from memory that is still the save's.
CAIRN_DECL void save_op::check_unchanged() {
    bool const all = left_out_.empty() || !parts_.writer->releases();
    for (std::size_t i = 0; i < data_.size(); ++i) {
        if (all || !left_out_[i]) parts_.changes->compare(plan_.items[i], i, data_[i]);
        clock_.activity()->advance();
    }
    parts_.changes->finish();
}
CAIRN_DECL save_fsm::event save_op::written() {
    mine_ = attempt(ranks_->rank(), [&] {
        auto const results = results_.get();
        if (parts_.gate) parts_.gate->check();
        if (parts_.changes) check_unchanged();
        all_written();
        heed_cancellation();
        for (auto const& [name, size] : results.file_sizes) report_.bytes_written += size;
        // The finished plan may differ from the one that was sent: it is sent with the results,
        // empty if it does not.
        wire_writer w;
        bool const as_sent = plan_ == plans_.sent();
        w.bytes(as_sent ? std::vector<std::byte>() : encode_save_plan(plan_));
        w.bytes(encode_write_results(results));
        w.raw(hashes_);
        put(w, clock_.times());
        return w.take();
    });
    settle(mine_);
    data_.clear();
    staging_.release();
    return save_fsm::event_of(mine_.failures);
}

CAIRN_DECL std::optional<save_fsm::event> save_op::commit() {
    clock_.enter("commit");
    mine_ = attempt(ranks_->rank(), [&] {
        prepare_metadata();
        return std::vector<std::byte>();
    });
    if (!mine_.failures.empty()) {
        clock_.stop();
        return event::refused;
    }
    call_part<commit_result>(
        in_.executor,
        [&](auto done) { parts_.writer->finish(std::as_const(meta_), std::move(done)); },
        [self = shared_from_this()](call_result<commit_result> r) {
            self->resume([&] {
                self->mine_ = attempt(self->ranks_->rank(), [&] {
                    for (auto& w : r.get().warnings) self->report_.warnings.push_back(std::move(w));
                    return std::vector<std::byte>();
                });
                self->clock_.stop();
                return save_fsm::event_of(self->mine_.failures);
            });
        });
    return {};
}
CAIRN_DECL void save_op::prepare_metadata() {
    meta_ = plans_.take_metadata();
    replicas_ = plans_.replicas();
    result_placer placer(meta_);
    for (std::size_t rank = 0; rank < everybody_.size(); ++rank) {
        wire_reader r(everybody_[rank].payload);
        auto const finished = r.bytes();
        auto const results = r.bytes();
        if (finished.empty())
            plans_.place(placer, results, rank);
        else
            placer.place(decode_save_plan(finished), results, static_cast<int>(rank));
        replicas_.get(r, rank);
        phases_.get(r, static_cast<int>(rank));
    }
    placer.check_all_placed();
    if (plans_.mapped()) {
        std::vector<std::string_view> stored;
        for (auto const& entry : meta_.entries) stored.emplace_back(entry.first);
        map::detail::refuse_unmatched(
            *parts_.names,
            map::detail::unmatched_lines(*parts_.names, map::detail::name_list(std::move(stored)),
                                         map::detail::side::source));
    }
    report_.warnings = placer.warnings();
    for (auto& w : replicas_.compare()) report_.warnings.push_back(std::move(w));
    meta_.save_id = report_.save_id;
}
CAIRN_DECL save_fsm::event save_op::query() {
    auto const lost = mine_.failures.front().text;
    try {
        if (!parts_.writer->committed(std::as_const(report_.save_id))) return event::failed;
    } catch (...) {
        mine_.failures = {in_doubt(lost)};
        return event::unknown;
    }
    mine_.failures.clear();
    report_.warnings.push_back("committed, although it failed: " + lost);
    return event::ok;
}

CAIRN_DECL void save_op::send_verdict() {
    outcome o;
    if (ranks_->coordinator()) {
        o.failures = collect_failures(everybody_);
        if (o.failures.empty()) o.failures = mine_.failures;
        wire_writer w;
        put(w, phases_.take());
        o.payload = w.take();
    }
    ranks_->broadcast(o, received<outcome>([this](outcome told) {
                          wire_reader r(told.payload);
                          if (told.failures.empty()) report_.phases = get_phases(r);
                          return told.failures;
                      }));
}

CAIRN_DECL rank_failure save_op::in_doubt(std::string found) const {
    return error(errc::outcome_unknown, {.found = std::move(found),
                                         .remedy = "look for save id " + report_.save_id +
                                                   " in the checkpoint; no file was removed"})
        .as_failure(ranks_->rank());
}
CAIRN_DECL save_fsm::event save_op::resolve_outcome() {
    auto lost = failures_.empty() ? std::string() : failures_.front().text;
    try {
        if (parts_.writer->committed(std::as_const(report_.save_id))) {
            if (!lost.empty()) report_.warnings.push_back("committed, although it failed: " + lost);
            return event::ok;
        }
    } catch (...) {
        lost +=
            "; the query whether it was committed failed too: " + text_of(std::current_exception());
    }
    failures_ = {in_doubt(std::move(lost))};
    return event::failed;
}

CAIRN_DECL save_fsm::event save_op::abandon() {
    clock_.enter("clean up");
    // A writer that was not reset still has the files of the previous save.
    all_removed_ = !begun_ || parts_.writer->abandon();
    clock_.stop();
    return all_removed_ ? event::ok : event::failed;
}
/// Called when all ranks know that the save failed; the coordinator learns whether files are left.
CAIRN_DECL void save_op::acknowledge() {
    outcome o;
    if (!all_removed_)
        o.failures.push_back(error(errc::io, {.found = "files that could not be removed"})
                                 .as_failure(ranks_->rank()));
    ranks_->gather(o, [self = shared_from_this()](call_result<std::vector<outcome>> r) {
        self->resume([&] {
            if (!r.failure) return save_fsm::event_of(collect_failures(*r.value));
            self->ranks_->cancel();
            return event::cut_short;
        });
    });
}

/// The last step: the outcome is final, and known to all ranks that can learn it.
CAIRN_DECL std::optional<save_fsm::event> save_op::sweep() {
    try {
        clock_.enter("sweep");
        call_part<sweep_result>(
            in_.executor, [&](auto done) { parts_.writer->sweep(fsm_.end(), std::move(done)); },
            [self = shared_from_this()](call_result<sweep_result> r) {
                self->resume([&] { return self->swept(std::move(r)); });
            });
        return {};
    } catch (...) {
        return swept({std::current_exception(), {}});
    }
}
CAIRN_DECL save_fsm::event save_op::swept(call_result<sweep_result> r) {
    auto& warnings = report_.warnings;
    if (r.failure)
        warnings.push_back("files that are no longer needed may be left: " + text_of(r.failure));
    else
        for (auto& w : r.value->warnings) warnings.push_back(std::move(w));
    report_.meta = std::move(meta_);
    return event::ok;
}

CAIRN_DECL void save_op::finish() {
    if (!fsm_.succeeded())
        return end(std::make_exception_ptr(error(std::move(failures_), false)), {});
    if (auto w = warning_if_alone(ranks_->size(), parts_.alone))
        report_.warnings.push_back(std::move(*w));
    report_.plan_reused = plans_.reused();
    plans_.keep(report_.save_id);
    end(nullptr, std::move(report_));
}
CAIRN_DECL void save_op::release() noexcept {
    data_.clear();
    staging_.release();
    parts_ = {};
    state_.reset();
}

}  // namespace cairn::detail

#endif
