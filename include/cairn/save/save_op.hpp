// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_SAVE_JOB_HPP
#define CAIRN_SAVE_SAVE_JOB_HPP

#include <cairn/detail/exchange.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/place_results.hpp>
#include <cairn/save/replicas.hpp>
#include <cairn/save/save_fsm.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Carries out the decisions of `save_fsm` on the calling thread. One rank's part of one save.
class save_job {
public:
    /// All arguments must outlive the job.
    /// @param refused  Why this rank cannot take part, if so; reported to the other ranks.
    save_job(const flat_state& state, std::exception_ptr refused, const checkpoint_id& id,
             const save_options& options, erased_communicator& comm, erased_save_planner& planner,
             erased_storage_writer& writer)
        : state_(state), refused_(std::move(refused)), id_(id), options_(options),
          exchange_(comm, options.coordinator, options.exchange_timeout, clock_.activity()),
          planner_(planner), writer_(writer), fsm_(exchange_.coordinator()) {}

    /// @throws error with every failed rank's own failure.
    save_report run() {
        using step = save_fsm::step;
        try {
            while (fsm_.current() != step::done) fsm_.resume(perform(fsm_.current()));
        } catch (...) {  // too little memory to report it: the other ranks must not wait
            exchange_.cancel();
            throw;
        }
        if (!fsm_.succeeded()) throw error(std::move(failures_), false);
        return std::move(report_);
    }

private:
    using event = save_fsm::event;

    event perform(save_fsm::step s) {
        using enum save_fsm::step;
        switch (s) {
            case open: return exchanged([&] { return open_save(); });
            case plan_local: return worked("plan", [&] { return local_plan(); });
            case exchange_plans: return exchanged([&] { return gathered(); });
            case plan_global: return worked("plan for all", [&] { return global_plan(); });
            case exchange_global: return exchanged([&] { return scattered(); });
            case write: return worked("write", [&] { return write_items(); });
            case exchange_results: return exchanged([&] { return gathered(); });
            case commit: return commit_or_doubt();
            case exchange_verdict: return exchanged([&] { return verdict(); });
            case resolve: return resolve_outcome();
            case abandon:
                clock_.enter("clean up");
                // A writer that was not reset still has the files of the previous save.
                all_removed_ = !begun_ || writer_.abandon();
                return all_removed_ ? event::ok : event::failed;
            case exchange_abandoned: return acknowledge();
            case sweep: return swept();
            case done: return event::ok;
        }
        return event::failed;
    }

    /// Runs a step of this rank alone: an exception is sent in the next exchange.
    template <class F>
    event worked(const char* phase, F&& f) {
        clock_.enter(phase);
        mine_ = exchange_.attempt(std::forward<F>(f));
        clock_.stop();
        return outcome_of(mine_.failures);
    }
    static event outcome_of(const std::vector<rank_failure>& failures) {
        for (auto const& f : failures)
            if (f.code == make_error_code(errc::outcome_unknown)) return event::unknown;
        return failures.empty() ? event::ok : event::failed;
    }
    /// Runs an exchange; returns the failures that all ranks now know.
    template <class F>
    event exchanged(F&& f) {
        try {
            failures_ = f();
            return outcome_of(failures_);
        } catch (...) {
            // The known failures are more informative than the group's failure that they caused.
            failures_ = collect_failures(everybody_);
            if (failures_.empty()) failures_ = mine_.failures;
            failures_.push_back(failure_from(std::current_exception(), exchange_.rank()));
            // Possibly only this rank has failed, on a message that it received: the others must
            // not wait.
            exchange_.cancel();
            return event::cut_short;
        }
    }

    std::vector<rank_failure> open_save() {
        outcome o;
        if (exchange_.coordinator())
            o = exchange_.attempt([&] {
                wire_writer w;
                w.string(new_save_id());
                w.string(id_);
                return std::move(w.out);
            });
        o = exchange_.broadcast(o);
        if (!o.failures.empty()) return o.failures;
        wire_reader r(o.payload);
        report_.save_id = r.string();
        coordinators_id_ = r.string();
        return {};
    }

    std::vector<std::byte> local_plan() {
        if (refused_) std::rethrow_exception(refused_);
        if (id_ != coordinators_id_) {
            throw error(errc::invalid_argument,
                        {.expected = "the coordinator's checkpoint id '" + coordinators_id_ + "'",
                         .found = "'" + id_ + "'",
                         .remedy = "give all ranks the same id"});
        }
        writer_.reset(id_);
        begun_ = true;
        planner_.set_up_save(state_, exchange_.rank(), exchange_.coordinator());
        storage_setup const me{exchange_.rank(), exchange_.size(), exchange_.coordinator(),
                               report_.save_id, clock_.activity()};
        writer_.set_up_writer(me);
        local_ = writer_.prepare_local_save_plan(planner_.create_local_save_plan());
        check_names(local_);
        return encode_save_plan(local_);
    }

    /// Gathers `mine_`; the coordinator keeps all ranks' payloads.
    std::vector<rank_failure> gathered() {
        everybody_ = exchange_.gather(mine_);
        // Only the coordinator has them; the others learn from its next message.
        return collect_failures(everybody_);
    }

    std::vector<std::byte> global_plan() {
        std::vector<save_plan> plans;
        for (auto const& o : everybody_) plans.push_back(decode_save_plan(o.payload));
        replicas_ = replica_table(plans, options_);
        auto [global, meta] = planner_.create_global_save_plan(std::move(plans));
        meta_ = std::move(meta);
        if (!planner_.checks_metadata()) check_planned_metadata(meta_);
        plans_ = writer_.prepare_global_save_plan(std::move(global));
        if (plans_.size() != static_cast<std::size_t>(exchange_.size())) {
            throw error(errc::invalid_plan,
                        {.expected = std::to_string(exchange_.size()) + " plans, one per rank",
                         .found = std::to_string(plans_.size()),
                         .remedy = "the planner or writer dropped some"});
        }
        return {};
    }

    std::vector<rank_failure> scattered() {
        std::vector<rank_failure> failures;
        std::vector<std::vector<std::byte>> payloads;
        if (exchange_.coordinator()) {
            failures = collect_failures(everybody_);
            if (failures.empty()) failures = mine_.failures;
            for (std::size_t r = 0; failures.empty() && r < plans_.size(); ++r) {
                wire_writer w;
                replicas_.put(w, r);
                w.raw(encode_save_plan(plans_[r]));
                payloads.push_back(std::move(w.out));
            }
        }
        auto o = exchange_.scatter(failures, payloads);
        if (o.failures.empty()) sent_ = std::move(o.payload);
        return o.failures;
    }

    std::vector<std::byte> write_items() {
        wire_reader sent(sent_);
        auto const held = decode_held(sent);
        auto const plan = planner_.finish_save_plan(decode_save_plan(sent.raw(sent.left())));
        std::vector<item_data> data;
        data.reserve(plan.items.size());
        for (auto const& item : plan.items) data.push_back(planner_.resolve_data(item));
        check_item_data(plan, data);
        auto const results = await_completion<write_results>(
            [&, items = std::span<const item_data>(data)](auto done) {
                writer_.write_data(plan, items, std::move(done));
            });
        for (auto const& [name, size] : results.file_sizes) report_.bytes_written += size;
        // The finished plan may differ from the scattered one: it is sent with the results.
        wire_writer w;
        w.bytes(encode_save_plan(plan));
        w.bytes(encode_write_results(results));
        put_replica_hashes(w, held, local_, state_, report_.save_id);
        clock_.stop();
        clock_.put(w);
        return std::move(w.out);
    }

    /// Commits. Once the writer may have published, only its error code or `committed` can show
    /// that it has not.
    event commit_or_doubt() {
        bool begun = false;
        auto const e = worked("commit", [&] {
            prepare_metadata();
            begun = true;
            auto result = await_completion<commit_result>(
                [&](auto done) { writer_.finish(std::as_const(meta_), std::move(done)); });
            for (auto& w : result.warnings) report_.warnings.push_back(std::move(w));
            return std::vector<std::byte>();
        });
        if (e == event::ok || e == event::unknown || !begun) return e;
        if (mine_.failures.front().code == make_error_code(errc::concurrent_save)) return e;
        try {
            if (!writer_.committed(std::as_const(report_.save_id))) return e;
        } catch (...) {
            mine_.failures = {in_doubt(mine_.failures.front().text)};
            return event::unknown;
        }
        auto const said = std::move(mine_.failures);
        mine_.failures.clear();
        report_.warnings.push_back("committed, although it failed: " + said.front().text);
        return event::ok;
    }
    void prepare_metadata() {
        result_placer placer(meta_);
        for (std::size_t rank = 0; rank < everybody_.size(); ++rank) {
            wire_reader r(everybody_[rank].payload);
            auto const plan = decode_save_plan(r.bytes());
            placer.place(plan, decode_write_results(r.bytes()), static_cast<int>(rank));
            replicas_.get(r, rank);
            phases_.get(r, static_cast<int>(rank));
        }
        placer.check_all_placed();
        report_.warnings = replicas_.compare();
        meta_.save_id = report_.save_id;
    }

    std::vector<rank_failure> verdict() {
        outcome o;
        if (exchange_.coordinator()) {
            o.failures = collect_failures(everybody_);
            if (o.failures.empty()) o.failures = mine_.failures;
            o.payload = phase_table::encode(phases_.take());
        }
        o = exchange_.broadcast(o);
        if (o.failures.empty()) report_.phases = phase_table::decode(o.payload);
        return o.failures;
    }

    rank_failure in_doubt(std::string found) const {
        return error(errc::outcome_unknown, {.found = std::move(found),
                                             .remedy = "look for save id " + report_.save_id +
                                                       " in the checkpoint; no file was removed"})
            .as_failure(exchange_.rank());
    }
    event resolve_outcome() {
        auto lost = failures_.empty() ? std::string() : failures_.front().text;
        try {
            if (writer_.committed(std::as_const(report_.save_id))) return event::ok;
        } catch (...) {
            lost += "; the query whether it was committed failed too: " +
                    text_of(std::current_exception());
        }
        failures_ = {in_doubt(std::move(lost))};
        return event::failed;
    }

    /// Called when all ranks know that the save failed; the coordinator learns whether files are
    /// left.
    event acknowledge() {
        try {
            outcome o;
            if (!all_removed_)
                o.failures.push_back(error(errc::io, {.found = "files that could not be removed"})
                                         .as_failure(exchange_.rank()));
            return outcome_of(collect_failures(exchange_.gather(o)));
        } catch (...) {
            exchange_.cancel();
            return event::cut_short;
        }
    }
    /// The last step: the outcome is final, and known to all ranks that can learn it.
    event swept() {
        try {
            auto result = await_completion<sweep_result>(
                [&](auto done) { writer_.sweep(fsm_.end(), std::move(done)); });
            for (auto& w : result.warnings) report_.warnings.push_back(std::move(w));
        } catch (...) {
            report_.warnings.push_back("files that are not needed any more may be left: " +
                                       text_of(std::current_exception()));
        }
        report_.meta = std::move(meta_);
        return event::ok;
    }

    const flat_state& state_;
    std::exception_ptr refused_;
    const checkpoint_id& id_;
    const save_options& options_;
    phase_clock clock_;
    exchange exchange_;
    erased_save_planner& planner_;
    erased_storage_writer& writer_;
    save_fsm fsm_;
    bool begun_ = false;        ///< The writer was reset for this save.
    bool all_removed_ = false;  ///< The files that this rank wrote, after a failure.
    std::string coordinators_id_;
    outcome mine_;
    std::vector<outcome> everybody_;
    std::vector<save_plan> plans_;
    save_plan local_;              ///< As this rank planned it.
    std::vector<std::byte> sent_;  ///< This rank's part of the global plan.
    replica_table replicas_;
    metadata meta_;
    std::vector<rank_failure> failures_;
    phase_table phases_;
    save_report report_;
};

}  // namespace cairn::detail

#endif
