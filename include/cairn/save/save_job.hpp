// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_SAVE_JOB_HPP
#define CAIRN_SAVE_SAVE_JOB_HPP

#include <cairn/detail/exchange.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/save_fsm.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Carries out what `save_fsm` decides, on the calling thread. One rank's part of one save.
template <Communicator Comm, SavePlanner Plan, StorageWriter Writer>
class save_job {
public:
    /// All arguments outlive the job.
    /// @param refused  Why this rank cannot take part; the others are told in its stead.
    save_job(const flat_state& state, std::exception_ptr refused, const checkpoint_id& id,
             const save_options& options, Comm& comm, Plan& planner, Writer& writer)
        : state_(state), refused_(std::move(refused)), id_(id),
          exchange_(comm, options.coordinator, options.deadline, clock_.shown()),
          planner_(planner), writer_(writer), fsm_(exchange_.coordinator()) {}

    /// @throws error with every failed rank's own failure.
    save_report run() {
        using step = save_fsm::step;
        while (fsm_.current() != step::done) fsm_.resume(perform(fsm_.current()));
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
            case commit: return worked("commit", [&] { return commit_metadata(); });
            case exchange_verdict: return exchanged([&] { return verdict(); });
            case resolve: return resolve_outcome();
            case abandon:
                // A writer that was not reset still knows the files of the save before this one.
                if (begun_) writer_.abandon();
                return event::ok;
            case done: return event::ok;
        }
        return event::failed;
    }

    /// This rank's own work: what it throws goes into the next exchange.
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
    /// An exchange: returns the failures that everybody now knows of.
    template <class F>
    event exchanged(F&& f) {
        try {
            failures_ = f();
            return outcome_of(failures_);
        } catch (...) {
            failures_ = {failure_from(std::current_exception(), exchange_.rank())};
            return event::cut_short;
        }
    }

    std::vector<rank_failure> open_save() {
        outcome o;
        if (exchange_.coordinator()) o = exchange_.attempt([&] {
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
                         .found = "'" + id_ + "'", .remedy = "give all ranks the same id"});
        }
        writer_.reset(id_);
        begun_ = true;
        planner_.set_up_save(state_, exchange_.rank(), exchange_.coordinator());
        storage_setup const me{exchange_.rank(), exchange_.size(), exchange_.coordinator(),
                               report_.save_id, clock_.shown()};
        writer_.set_up_writer(me);
        auto const plan = writer_.prepare_local_save_plan(planner_.create_local_save_plan());
        check_names(plan);
        return encode_save_plan(plan);
    }

    /// Gathers `mine_`; the coordinator keeps everybody's payload.
    std::vector<rank_failure> gathered() {
        everybody_ = exchange_.gather(mine_);
        // Only the coordinator knows; the others learn from what it sends next.
        return collect_failures(everybody_);
    }

    std::vector<std::byte> global_plan() {
        std::vector<save_plan> plans;
        for (auto const& o : everybody_) plans.push_back(decode_save_plan(o.payload));
        auto [global, meta] = planner_.create_global_save_plan(std::move(plans));
        meta_ = std::move(meta);
        // The default planner has checked its own, and can name the ranks.
        if constexpr (!std::same_as<Plan, default_planner>) check_planned_metadata(meta_);
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
            for (std::size_t r = 0; failures.empty() && r < plans_.size(); ++r)
                payloads.push_back(encode_save_plan(plans_[r]));
        }
        auto o = exchange_.scatter(failures, payloads);
        if (o.failures.empty()) my_plan_ = o.payload;
        return o.failures;
    }

    std::vector<std::byte> write_items() {
        auto const plan = planner_.finish_save_plan(decode_save_plan(my_plan_));
        std::vector<item_data> data;
        data.reserve(plan.items.size());
        for (auto const& item : plan.items) data.push_back(planner_.resolve_data(item));
        check_item_data(plan, data);
        auto const results = await_completion<write_results>(
            [&, items = std::span<const item_data>(data)](auto done) {
                writer_.write_data(plan, items, std::move(done));
            });
        for (auto const& [name, size] : results.object_sizes) report_.bytes_written += size;
        // The finished plan may differ from the one that was scattered: it goes with the results.
        wire_writer w;
        w.bytes(encode_save_plan(plan));
        w.bytes(encode_write_results(results));
        clock_.stop();
        clock_.put(w);
        return std::move(w.out);
    }

    std::vector<std::byte> commit_metadata() {
        for (std::size_t rank = 0; rank < everybody_.size(); ++rank) {
            wire_reader r(everybody_[rank].payload);
            auto const plan = decode_save_plan(r.bytes());
            place(plan, decode_write_results(r.bytes()), static_cast<int>(rank));
            phases_.get(r, static_cast<int>(rank));
        }
        check_all_placed();
        meta_.save_id = report_.save_id;
        (void)await_completion<done_t>(
            [&](auto done) { writer_.finish(std::as_const(meta_), std::move(done)); });
        // The checkpoint exists: nothing that fails from here on may undo it.
        report_.meta = std::move(meta_);
        if constexpr (requires {
                          { writer_.warnings() } -> std::convertible_to<std::vector<std::string>>;
                      }) {
            try {
                report_.warnings = writer_.warnings();
            } catch (...) {
                report_.warnings = {"the writer had warnings that could not be had"};
            }
        }
        return {};
    }

    /// Fills locations into the metadata, matched by name and box.
    void place(const save_plan& plan, write_results results, int rank) {
        for (auto& r : results.items) {
            if (r.item >= plan.items.size()) {
                throw error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
            }
            auto const& item = plan.items[r.item];
            auto const it = meta_.entries.find(item.fqn);
            if (it == meta_.entries.end()) {
                throw error(errc::invalid_plan, {.rank = rank, .tensor = item.fqn,
                                                 .found = "a result for a name without metadata"});
            }
            check_written_item(item, rank, it->second);
            if (auto* o = std::get_if<object_metadata>(&it->second)) {
                o->at = std::move(r.at);
            } else {
                auto const c = chunk_of(item);
                if (c == nullptr) {
                    throw error(errc::invalid_plan, {.rank = rank, .tensor = item.fqn,
                                                     .found = "a result for an unplanned box " +
                                                              to_string(item.where)});
                }
                c->at = std::move(r.at);
            }
        }
        for (auto& [name, size] : results.object_sizes) meta_.object_sizes.emplace(name, size);
    }

    cairn::chunk* chunk_of(const write_item& item) {
        if (chunks_.empty()) {
            for (auto& [fqn, entry] : meta_.entries) {
                if (auto* t = std::get_if<tensor_metadata>(&entry))
                    for (auto& c : t->chunks)
                        chunks_.emplace(std::pair(fqn, std::pair(c.where.offsets, c.where.lengths)),
                                        &c);
            }
        }
        auto const it =
            chunks_.find(std::pair(item.fqn, std::pair(item.where.offsets, item.where.lengths)));
        return it == chunks_.end() ? nullptr : it->second;
    }

    void check_all_placed() const {
        auto const check = [](const std::string& fqn, const storage_location& at) {
            if (at.object.empty()) {
                throw error(errc::invalid_plan, {.tensor = fqn,
                                                 .expected = "a place for every chunk",
                                                 .found = "one that no rank wrote"});
            }
        };
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry))
                for (auto const& c : t->chunks) check(fqn, c.at);
            else
                check(fqn, std::get<object_metadata>(entry).at);
        }
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

    event resolve_outcome() {
        bool committed = false;
        if constexpr (requires { { writer_.committed(report_.save_id) } -> std::same_as<bool>; }) {
            try {
                committed = writer_.committed(report_.save_id);
            } catch (const error&) {
                committed = false;
            }
        }
        if (committed) return event::ok;
        auto lost = failures_.empty() ? std::string() : failures_.front().text;
        failures_ = {error(errc::outcome_unknown,
                           {.found = lost,
                            .remedy = "look for save id " + report_.save_id +
                                      " in the checkpoint; no file was removed"})
                         .as_failure(exchange_.rank())};
        return event::failed;
    }

    const flat_state& state_;
    std::exception_ptr refused_;
    const checkpoint_id& id_;
    phase_clock clock_;
    exchange<Comm> exchange_;
    Plan& planner_;
    Writer& writer_;
    save_fsm fsm_;
    bool begun_ = false;  ///< The writer was reset for this save.
    std::string coordinators_id_;
    outcome mine_;
    std::vector<outcome> everybody_;
    std::vector<save_plan> plans_;
    std::vector<std::byte> my_plan_;
    metadata meta_;
    std::map<std::pair<std::string, std::pair<sizes, sizes>>, cairn::chunk*> chunks_;
    std::vector<rank_failure> failures_;
    phase_table phases_;
    save_report report_;
};

}  // namespace cairn::detail

#endif
