// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_LOAD_JOB_HPP
#define CAIRN_LOAD_LOAD_JOB_HPP

#include <cairn/detail/exchange.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/load/load_fsm.hpp>
#include <cairn/load/load_turns.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/read_once/plane_groups.hpp>
#include <cairn/load/read_once/shared_items.hpp>
#include <cairn/load/read_once/shared_reads.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Carries out the decisions of `load_fsm` on the calling thread. One rank's part of one load.
class load_job {
public:
    /// All arguments must outlive the job.
    /// @param refused  Why this rank cannot take part, if so; reported to the other ranks.
    load_job(flat_state& state, std::exception_ptr refused, const checkpoint_id& id,
             const load_options& options, erased_communicator& comm, erased_load_planner& planner,
             erased_storage_reader& reader, erased_data_plane* plane)
        : state_(state), refused_(std::move(refused)), id_(id), options_(options),
          exchange_(comm, options.coordinator, options.exchange_timeout, clock_.activity()),
          planner_(planner), reader_(reader), plane_(plane),
          turns_(planner, reader, plane, clock_, options.exchange_timeout, meta_),
          fsm_(exchange_.coordinator()) {}

    /// @throws error with every failed rank's own failure.
    load_report run() {
        using step = load_fsm::step;
        try {
            while (fsm_.current() != step::done) fsm_.resume(perform(fsm_.current()));
        } catch (...) {  // too little memory to report it: the other ranks must not wait
            exchange_.cancel();
            throw;
        }
        // Other ranks may be further ahead, and wait for this rank in a broadcast.
        if (plane_ != nullptr && cut_short_ && fsm_.state_modified()) plane_->cancel();
        if (!fsm_.succeeded()) throw error(std::move(failures_), fsm_.state_modified());
        auto report = turns_.take_report();
        report.phases = std::move(phases_);
        return report;
    }

private:
    using event = load_fsm::event;

    event perform(load_fsm::step s) {
        using enum load_fsm::step;
        switch (s) {
            case read_metadata:
                return worked("read metadata", [&] {
                    reader_.reset(id_);
                    return format::native::encode_metadata(reader_.read_metadata());
                });
            case exchange_metadata: return exchanged([&] { return receive_metadata(); });
            case plan_local: return worked("plan", [&] { return local_plan(); });
            case exchange_plans:
                return exchanged([&] {
                    everybody_ = exchange_.gather(mine_);
                    return collect_failures(everybody_);
                });
            case plan_global: return worked("plan for all", [&] { return global_plan(); });
            case exchange_global: return moved_if_replaced(exchanged([&] { return scattered(); }));
            case finish_plan: return worked("plan", [&] { return finished_plan(); });
            case agree: return moved_if_replaced(exchanged([&] { return agreed(); }));
            case read:
                return worked(turns_.name(), [&] { return with_numbers(turns_.read(plan_)); });
            case share:
                return worked(turns_.name(), [&] {
                    return with_numbers(turns_.broadcast(
                        plan_, place_.is_whole(exchange_.rank(), exchange_.size())));
                });
            case exchange_results: return what_next(exchanged([&] { return compare(); }));
            case look_again: return look();
            case exchange_restart: return restart();
            case done: return event::ok;
        }
        return event::failed;
    }

    template <class F>
    event worked(const char* phase, F&& f) {
        clock_.enter(phase);
        mine_ = exchange_.attempt(std::forward<F>(f));
        clock_.stop();
        return mine_.failures.empty() ? event::ok : event::failed;
    }
    template <class F>
    event exchanged(F&& f) {
        try {
            failures_ = f();
            return failures_.empty() ? event::ok : event::failed;
        } catch (...) {
            // This rank's own failure is more informative than the group's failure that it caused.
            cut_short_ = true;
            failures_ = mine_.failures;
            failures_.push_back(failure_from(std::current_exception(), exchange_.rank()));
            // Possibly only this rank has failed, on a message that it received: the others must
            // not wait.
            exchange_.cancel();
            return event::cut_short;
        }
    }

    std::vector<rank_failure> receive_metadata() {
        auto o = exchange_.broadcast(mine_);
        if (o.failures.empty()) meta_ = format::native::decode_metadata(o.payload);
        return o.failures;
    }

    std::vector<std::byte> local_plan() {
        if (refused_) std::rethrow_exception(refused_);
        if (!exchange_.coordinator()) reader_.reset(id_);
        planner_.set_up_load(state_, std::as_const(meta_), exchange_.rank(),
                             exchange_.coordinator());
        storage_setup const me{exchange_.rank(), exchange_.size(), exchange_.coordinator(),
                               meta_.save_id, clock_.activity()};
        reader_.set_up_reader(std::as_const(meta_), me);
        place_ = place_in(plane_);
        wire_writer w;
        put(w, place_);
        w.raw(encode_load_plan(reader_.prepare_local_load_plan(planner_.create_local_load_plan())));
        return std::move(w.out);
    }

    std::vector<std::byte> global_plan() {
        std::vector<load_plan> plans;
        std::vector<plane_place> places;
        for (auto const& o : everybody_) {
            wire_reader r(o.payload);
            places.push_back(get_plane_place(r));
            plans.push_back(decode_load_plan(r.raw(r.left())));
        }
        auto const planes = plane_groups(places);
        plans_ =
            reader_.prepare_global_load_plan(planner_.create_global_load_plan(std::move(plans)));
        if (plans_.size() != static_cast<std::size_t>(exchange_.size())) {
            throw error(errc::invalid_plan,
                        {.expected = std::to_string(exchange_.size()) + " plans, one per rank",
                         .found = std::to_string(plans_.size()),
                         .remedy = "the planner or reader dropped some"});
        }
        shared_plans_ =
            find_shared(plans_, planes, meta_, options_.read_once, options_.read_once_trial);
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
                w.bytes(encode_load_plan(plans_[r]));
                put(w, shared_plans_[r]);
                payloads.push_back(std::move(w.out));
            }
        }
        auto o = exchange_.scatter(failures, payloads);
        my_plan_ = o.payload;
        return o.failures;
    }

    std::vector<std::byte> finished_plan() {
        wire_reader r(my_plan_);
        auto sent = decode_load_plan(r.bytes());
        turns_.shared().reset(get_shared(r, sent, place_.size), sent, meta_, place_.rank);
        plan_ = planner_.finish_load_plan(std::move(sent));
        turns_.read_values(plan_);
        wire_writer w;
        w.svarint(place_.plane_id);
        for (auto const part : turns_.shared().match(plan_)) w.varint(part);
        return std::move(w.out);
    }
    std::vector<rank_failure> agreed() {
        auto const all = exchange_.all_gather(mine_);
        auto failures = collect_failures(all);
        if (!failures.empty()) return failures;
        std::vector<std::uint32_t> lacking;
        for (auto const& o : all) {
            wire_reader r(o.payload);
            if (r.svarint() != place_.plane_id) continue;  // of another data plane
            while (r.left() != 0) lacking.push_back(static_cast<std::uint32_t>(r.varint()));
        }
        turns_.shared().drop(lacking);
        return failures;
    }

    /// Once everything is loaded, numbers stored with another type are converted back.
    std::vector<std::byte> with_numbers(std::vector<std::byte> told) {
        if (turns_.shared().last()) give_back(state_);
        return told;
    }

    std::vector<rank_failure> compare() {
        auto const all = exchange_.all_gather(mine_);
        auto failures = collect_failures(all);
        phase_table table;
        for (std::size_t rank = 0; failures.empty() && rank < all.size(); ++rank) {
            wire_reader r(all[rank].payload);
            turns_.learn(r);
            table.get(r, static_cast<int>(rank));
        }
        phases_ = table.take();
        return failures;
    }

    event what_next(event e) {
        e = moved_if_replaced(e);
        if (e != event::ok || !turns_.shared().advance()) return e;
        return turns_.shared().current() == shared_reads::turn::read_rest ? event::to_read
                                                                          : event::to_share;
    }
    event moved_if_replaced(event e) const {
        if (e != event::failed) return e;
        // Errors of files whose checkpoint was replaced concurrently.
        for (auto const& f : failures_)
            for (auto const c : {errc::not_found, errc::missing_file, errc::foreign_file,
                                 errc::corrupt, errc::checksum_mismatch})
                if (f.code == make_error_code(c)) return event::moved;
        return e;
    }

    event look() {
        looked_ = exchange_.attempt([&] {
            auto const now = reader_.read_metadata();
            // PyTorch's checkpoints have no id.
            bool const replaced =
                now.save_id != meta_.save_id || (now.save_id.empty() && now != meta_);
            return std::vector<std::byte>{std::byte{replaced}};
        });
        // If the checkpoint no longer exists, the first failure is sufficient.
        if (!looked_.failures.empty() &&
            looked_.failures.front().code == make_error_code(errc::not_found))
            looked_ = {};
        return event::ok;
    }

    /// @pre On the coordinator, `look` was called.
    event restart() {
        auto const before = failures_;
        outcome o;
        auto const e = exchanged([&] {
            o = exchange_.broadcast(looked_);
            return o.failures;
        });
        if (e == event::cut_short) failures_ = {std::move(failures_.back())};
        failures_.insert(failures_.begin(), before.begin(), before.end());
        if (e == event::cut_short) return e;
        mine_ = {};
        return !o.payload.empty() && o.payload[0] == std::byte{1} ? event::moved : event::failed;
    }

    flat_state& state_;
    std::exception_ptr refused_;
    const checkpoint_id& id_;
    const load_options& options_;
    phase_clock clock_;
    exchange exchange_;
    erased_load_planner& planner_;
    erased_storage_reader& reader_;
    erased_data_plane* plane_;
    load_turns turns_;
    load_fsm fsm_;
    plane_place place_;
    metadata meta_;
    outcome mine_;
    std::vector<outcome> everybody_;
    std::vector<load_plan> plans_;
    std::vector<shared_plan> shared_plans_;
    std::vector<std::byte> my_plan_;
    load_plan plan_;
    outcome looked_;  ///< Whether the checkpoint was replaced; on the coordinator.
    bool cut_short_ = false;
    std::vector<rank_failure> failures_;
    std::vector<phase_time> phases_;
};

}  // namespace cairn::detail

#endif
