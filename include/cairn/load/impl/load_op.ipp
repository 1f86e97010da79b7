// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_LOAD_OP_IPP
#define CAIRN_LOAD_IMPL_LOAD_OP_IPP

#include <cairn/load/detail/load_op.hpp>

#include <cairn/comm/detail/omitted.hpp>
#include <cairn/detail/counted.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/mapping/detail/digest.hpp>
#include <cairn/mapping/detail/lines.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/detail/save_side.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/printable.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/state/detail/numbers.hpp>
#include <cairn/verb/detail/called_verb.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL load_op::load_op(surroundings in, std::shared_ptr<flattened_or_error> state,
                            checkpoint_id id, load_options options, load_parts parts, ended then)
    : collective_op(std::move(in), *parts.ranks, options.coordinator, options.exchange_timeout,
                    parts.sinks, std::move(then)),
      state_(std::move(state)), id_(std::move(id)), options_(std::move(options)),
      parts_(std::move(parts)) {
    if (!parts_.devices) parts_.devices = no_memory_spaces(state_->leaves());
    if (state_->leaves().empty()) parts_.some_names = true;  // a planner may add them
    turns_.emplace(in_, *parts_.planner, *parts_.devices, *parts_.reader, parts_.plane, clock_,
                   options_.exchange_timeout, meta_);
}

CAIRN_DECL load_op::~load_op() {
    if (running()) fail(executor_ended("load"));
}

CAIRN_DECL void load_op::cancel() noexcept {
    set_cancelled();
    try {
        boost::asio::post(in_.executor, [weak = weak_from_this()] {
            auto const self = weak.lock();
            // The plane is this load's own: the verb has duplicated the caller's.
            if (self && self->running() && self->fsm_.current() == step::share)
                self->cut_broadcast();
        });
    } catch (...) {  // no memory: the broadcast ends by itself
    }
}
CAIRN_DECL void load_op::cut_broadcast() noexcept {
    if (cancelled()) cut_plane();
}
CAIRN_DECL void load_op::cut_plane() noexcept {
    if (parts_.plane != nullptr) parts_.plane->cancel();
}
CAIRN_DECL error load_op::broken(const std::exception_ptr& e) {
    cut_plane();  // the others may be in a broadcast
    return {{failure_from(e, ranks_->rank())}, fsm_.state_modified()};
}

template <class F>
void load_op::broadcast(F f) {
    cut_broadcast();
    try {
        turns_->broadcast(plan_, place_.is_whole(ranks_->rank(), ranks_->size()), std::move(f));
    } catch (...) {  // the others wait for this rank's broadcasts
        cut_plane();
        throw;
    }
}
CAIRN_DECL std::optional<load_fsm::event> load_op::perform(step s) {
    using enum load_fsm::step;
    switch (s) {
        case read_metadata:
            return worked("read metadata", [&] {
                heeded_stop const heeded(stop_.get_token());
                reset_reader();
                return tell(parts_.reader->read_index());
            });
        case exchange_metadata:
            return starts([&] {
                ranks_->broadcast(mine_, received<outcome>([this](const outcome& o) {
                                      if (o.failures.empty()) learn_metadata(o.payload);
                                      return o.failures;
                                  }));
            });
        case plan_local:
            return worked("plan", [&] {
                heeded_stop const heeded(stop_.get_token());
                set_up();
                return tell(parts_.reader->prepare_local_load_plan(
                    parts_.planner->create_local_load_plan()));
            });
        case exchange_plans: return starts([&] { gather_outcomes(); });
        case plan_global: return worked("plan for all", [&] { return global_plan(); });
        case exchange_global:
            return starts([&] {
                scatter_messages([this](std::size_t rank) { return std::move(messages_[rank]); },
                                 my_plan_);
            });
        case step::finish_plan: return this->finish_plan();
        case agree:
            return starts([&] {
                ranks_->all_gather(mine_, received<std::vector<outcome>>(
                                              [this](const auto& all) { return agreed(all); }));
            });
        case read:
            return works(
                turns_->name(), [&](auto f) { turns_->read(plan_, std::move(f)); },
                [this] { return end_of_turn(); });
        case share:
            return works(
                turns_->name(), [&](auto f) { broadcast(std::move(f)); },
                [this] { return end_of_turn(); });
        case exchange_results:
            return starts([&] {
                ranks_->all_gather(mine_, received<std::vector<outcome>>(
                                              [this](const auto& all) { return compare(all); },
                                              &load_op::what_next));
            });
        case look_again: return look();
        case exchange_restart: return starts([&] { restart(); });
        case done: return event::ok;
    }
    return event::failed;
}

CAIRN_DECL void load_op::reset_reader() {
    parts_.reader->reset(id_);
    fsm_.items_stay_local(parts_.planner->items_stay_local() && parts_.reader->items_stay_local());
}
/// Returns what all ranks have of a metadata that is sent to them so: not the members that only a
/// pickle has. Versions of files stay, for the coordinator.
CAIRN_DECL metadata load_op::as_sent(metadata m, std::span<const std::byte> sent) {
    auto common = format::native::decode_metadata(sent);
    common.file_versions = std::move(m.file_versions);
    return common;
}
/// Returns the coordinator's message: what it has called, what is decided before, and the index as
/// it is stored.
CAIRN_DECL std::vector<std::byte> load_op::tell(stored_index stored) {
    wire_writer w;
    put_call(w, called_verb::load, id_);
    w.u8(fsm_.needs_items(parts_.plane != nullptr));
    w.u64(ranks_->size() > 1 ? map::detail::digest(parts_.names.get()) : 0);
    if (stored.bytes.empty()) {
        stored.bytes = format::native::encode_metadata(stored.meta);
        stored.meta = as_sent(std::move(stored.meta), stored.bytes);
    }
    w.raw(stored.bytes);
    meta_ = std::move(stored.meta);
    return w.take();
}
CAIRN_DECL void load_op::learn_metadata(const std::vector<std::byte>& told) {
    wire_reader r(told);
    coordinators_id_ = get_call(r, called_verb::load);
    fsm_.told(r.u8() != 0);
    coordinators_mapping_ = r.u64();
    if (!ranks_->coordinator()) meta_ = format::native::decode_metadata(r.raw(r.left()));
}

CAIRN_DECL void load_op::set_up() {
    if (state_->refused) std::rethrow_exception(state_->refused);
    was_modified_ = fsm_.state_modified();
    parts_.devices->check(parts_.planner->needs_memory_spaces());
    if (!ranks_->coordinator()) {
        check_same_id(id_, coordinators_id_);
        map::detail::check_same(parts_.names.get(), coordinators_mapping_);
        reset_reader();
    }
    parts_.reader->show(meta_, state_->leaves());
    parts_.planner->set_up_load(state_->leaves(), std::as_const(meta_), ranks_->rank(),
                                ranks_->coordinator());
    storage_setup const me{ranks_->rank(), ranks_->size(),    ranks_->coordinator(),
                           meta_.save_id,  clock_.activity(), stop_.get_token()};
    parts_.reader->set_up_reader(std::as_const(meta_), me);
    place_ = place_in(parts_.plane);
    fsm_.may_be_replaced(meta_.save_id.empty());
}
/// Returns this rank's message: its plan, without items that stay here.
CAIRN_DECL std::vector<std::byte> load_op::tell(load_plan plan) {
    check_ties();
    wire_writer w;
    put(w, place_);
    put_unmatched(w);
    if (fsm_.keeps_items()) {
        items_ = std::exchange(plan.items, {});
        no_items_ = std::exchange(plan.no_items, {});
    }
    w.raw(encode_load_plan(plan));
    return w.take();
}

/// If a weight is stored twice, only one copy is read: the other one must have the same content.
CAIRN_DECL void load_op::check_ties() {
    ties_not_checked_.clear();
    for (auto const& tie : parts_.planner->ties()) {
        bool checked = !tie.chunks.empty();
        for (auto const& [mine, read] : tie.chunks) {
            auto const a = parts_.reader->checksum(tie.fqn, mine);
            auto const b = parts_.reader->checksum(tie.read, read);
            checked =
                a && b && a->bytes == b->bytes && a->first == b->first && a->strides == b->strides;
            if (!checked) break;
            if (a->crc != b->crc)
                throw error(errc::invalid_state,
                            {.fqn = tie.fqn,
                             .expected = "the content of '" + tie.read +
                                         "', which is the same weight in the state",
                             .found = "other content in the checkpoint",
                             .remedy = "leave one of the two out of the state"});
        }
        if (!checked)
            ties_not_checked_.push_back("'" + terminal_text(tie.fqn) + "' was read as '" +
                                        terminal_text(tie.read) +
                                        "', which is the same weight in the state; whether the "
                                        "checkpoint has the same content for both was not checked");
    }
}

/// Tells which lines of the mapping match nothing of the state, if it is a whole one.
CAIRN_DECL void load_op::put_unmatched(wire_writer& w) const {
    if (!parts_.names || parts_.names->others() != other_names::leave_out || parts_.some_names)
        return w.u8(0);
    std::vector<std::string> names;
    for (auto const& leaf : state_->leaves()) {
        names.push_back(leaf.fqn);
        if (leaf.per_rank()) names.push_back(per_rank_name(leaf.fqn, ranks_->rank()));
    }
    w.u8(1);
    std::sort(names.begin(), names.end());
    auto const lines =
        unmatched_lines(*parts_.names, map::detail::name_list({names.begin(), names.end()}),
                        map::detail::side::target);
    w.varint(lines.size());
    for (auto const i : lines) w.varint(i);
}
/// What all ranks tell that tell something.
struct common_numbers {
    std::vector<std::size_t> all{};
    bool any = false;

    void get(wire_reader& r) {
        if (r.u8() == 0) return;
        std::vector<std::size_t> told(r.count(1)), both;
        for (auto& i : told) i = static_cast<std::size_t>(r.varint());
        if (any)
            std::set_intersection(all.begin(), all.end(), told.begin(), told.end(),
                                  std::back_inserter(both));
        all = any ? std::move(both) : std::move(told);
        any = true;
    }
};

CAIRN_DECL std::vector<std::byte> load_op::global_plan() {
    std::vector<load_plan> plans;
    std::vector<plane_place> places;
    common_numbers unmatched;
    for (auto const& o : everybody_) {
        wire_reader r(o.payload);
        places.push_back(get_plane_place(r));
        unmatched.get(r);
        plans.push_back(decode_load_plan(r.raw(r.left())));
    }
    if (parts_.names) map::detail::refuse_unmatched(*parts_.names, unmatched.all);
    auto const planes = plane_groups(places);
    plans = parts_.reader->prepare_global_load_plan(
        parts_.planner->create_global_load_plan(std::move(plans)));
    check_one_per_rank(plans.size(), static_cast<std::size_t>(ranks_->size()), "plans",
                       "planner or reader");
    auto const shared = find_shared(plans, planes, meta_, options_.read_once_from);
    messages_.clear();
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
        wire_writer w;
        w.bytes(encode_load_plan(plans[rank]));
        put(w, shared[rank]);
        messages_.push_back(w.take());
    }
    return {};
}

CAIRN_DECL std::optional<load_fsm::event> load_op::finish_plan() {
    return works(
        "plan",
        [this](auto f) {
            out_of_memory_ = std::make_exception_ptr(error(
                {failure_from(std::make_exception_ptr(std::bad_alloc()), ranks_->rank())}, true));
            wire_reader r(my_plan_);
            auto sent = decode_load_plan(r.bytes());
            if (fsm_.keeps_items()) {
                sent.items = std::move(items_);
                sent.no_items = std::move(no_items_);
            }
            turns_->shared().reset(get_shared(r, sent, place_.size), sent, meta_, place_.rank);
            plan_ = parts_.planner->finish_load_plan(std::move(sent));
            for (auto const& i : plan_.items)
                if (i.leaf < state_->leaves().size()) expect_number(state_->leaves()[i.leaf]);
            turns_->read_values(plan_, std::move(f));
        },
        [this] {
            wire_writer w;
            w.svarint(place_.plane_id);
            for (auto const part : turns_->shared().match(plan_)) w.varint(part);
            return w.take();
        });
}
CAIRN_DECL std::vector<rank_failure> load_op::agreed(const std::vector<outcome>& all) {
    auto failures = collect_failures(all);
    if (!failures.empty()) return failures;
    std::vector<std::uint32_t> lacking;
    for (auto const& o : all) {
        wire_reader r(o.payload);
        if (r.svarint() != place_.plane_id) continue;  // of another data plane
        while (r.left() != 0) lacking.push_back(static_cast<std::uint32_t>(r.varint()));
    }
    turns_->shared().drop(lacking);
    return failures;
}

CAIRN_DECL std::vector<std::byte> load_op::end_of_turn() {
    auto told = turns_->end_of_turn();
    // Once everything is loaded, numbers stored with another type are converted back.
    if (turns_->shared().last()) give_back(state_->leaves());
    return told;
}

CAIRN_DECL std::vector<rank_failure> load_op::compare(const std::vector<outcome>& all) {
    auto failures = collect_failures(all);
    phase_table table;
    for (std::size_t rank = 0; failures.empty() && rank < all.size(); ++rank) {
        wire_reader r(all[rank].payload);
        table.get(r, static_cast<int>(rank));
    }
    phases_ = table.take();
    return failures;
}

CAIRN_DECL load_fsm::event load_op::what_next(event e) {
    return e == event::ok && turns_->shared().advance() ? event::to_share : e;
}

CAIRN_DECL load_fsm::event load_op::look() {
    looked_ = attempt(ranks_->rank(), [&] {
        heeded_stop const heeded(stop_.get_token());
        if (failures_.empty()) {
            try {
                parts_.reader->check_unchanged();
                return std::vector<std::byte>();
            } catch (const error& e) {
                if (e.code() != make_error_code(errc::concurrent_save) || fsm_.last_attempt())
                    throw;
                return std::vector<std::byte>{std::byte{1}};
            }
        }
        auto now = parts_.reader->read_index().meta;
        bool replaced = now.save_id != meta_.save_id;
        if (!replaced && now.save_id.empty()) {  // PyTorch's checkpoints have no id
            auto const sent = format::native::encode_metadata(now);
            now = as_sent(std::move(now), sent);
            parts_.reader->show(now, state_->leaves());
            replaced = now != meta_;
        }
        if (replaced && fsm_.last_attempt())
            throw error(errc::concurrent_save,
                        {.expected = "the checkpoint that the load began to read",
                         .found = now.save_id.empty() ? std::string("another, without a save id")
                                                      : "that of save " + now.save_id,
                         .remedy = "it was replaced " + std::to_string(load_fsm::attempts) +
                                   " times while it was read: load again when it is replaced "
                                   "less often"});
        return std::vector<std::byte>{std::byte{replaced}};
    });
    // If the checkpoint no longer exists, the first failure is sufficient.
    if (!looked_.failures.empty() &&
        looked_.failures.front().code == make_error_code(errc::not_found))
        looked_ = {};
    return event::ok;
}

/// @pre On the coordinator, `look` was called.
CAIRN_DECL void load_op::restart() {
    ranks_->broadcast(looked_, [self = shared_from_this()](call_result<outcome> r) {
        self->resume([&] {
            auto const before = std::move(self->failures_);
            outcome o;
            auto const e = self->exchanged([&] {
                o = r.get();
                return o.failures;
            });
            auto& known = self->failures_;
            if (e == event::cut_short) known = {std::move(known.back())};
            // The save that has replaced the checkpoint explains all errors of its files, but for
            // bytes that are not those that were written.
            bool const damaged = std::any_of(before.begin(), before.end(), [](const auto& f) {
                return f.code == make_error_code(errc::checksum_mismatch);
            });
            if (damaged || o.failures.empty() ||
                o.failures.front().code != make_error_code(errc::concurrent_save))
                known.insert(known.begin(), before.begin(), before.end());
            if (e == event::cut_short) return e;
            self->mine_ = {};
            self->everybody_.clear();
            if (!o.payload.empty() && o.payload[0] == std::byte{1}) return event::moved;
            return known.empty() ? event::ok : event::failed;
        });
    });
}

CAIRN_DECL void load_op::finish() {
    // Other ranks may be further ahead, and wait for this rank in a broadcast.
    if (was_cut_short() && fsm_.state_modified()) cut_plane();
    if (!fsm_.succeeded())
        return end(std::make_exception_ptr(error(std::move(failures_), fsm_.state_modified())), {});
    auto report = turns_->take_report();
    report.phases = std::move(phases_);
    report.warnings.insert(report.warnings.end(), ties_not_checked_.begin(),
                           ties_not_checked_.end());
    if (was_modified_ && !report.missing.empty())
        report.warnings.push_back(
            "'" + terminal_text(report.missing.front()) +
            "' is missing, and may have content of a checkpoint that was replaced during the load" +
            (report.missing.size() == 1
                 ? ""
                 : "; so may " + counted(report.missing.size() - 1, "other missing name")));
    if (auto w = warning_if_alone(ranks_->size(), parts_.alone))
        report.warnings.push_back(std::move(*w));
    end(nullptr, std::move(report));
}
CAIRN_DECL void load_op::release() noexcept {
    turns_.reset();
    parts_ = {};
    state_.reset();
}

}  // namespace cairn::detail

#endif
