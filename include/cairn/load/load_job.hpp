// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_LOAD_JOB_HPP
#define CAIRN_LOAD_LOAD_JOB_HPP

#include <cairn/detail/exchange.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/load/load_fsm.hpp>
#include <cairn/load/options.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/storage/concepts.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Carries out what `load_fsm` decides, on the calling thread. One rank's part of one load.
template <Communicator Comm, LoadPlanner Plan, StorageReader Reader>
class load_job {
public:
    /// All arguments outlive the job.
    /// @param refused  Why this rank cannot take part; the others are told in its stead.
    load_job(flat_state& state, std::exception_ptr refused, const checkpoint_id& id,
             const load_options& options, Comm& comm, Plan& planner, Reader& reader)
        : state_(state), refused_(std::move(refused)), id_(id),
          exchange_(comm, options.coordinator, options.deadline, clock_.shown()),
          planner_(planner), reader_(reader), fsm_(exchange_.coordinator()) {}

    /// @throws error with every failed rank's own failure.
    /// @return How long the ranks took.
    std::vector<phase_time> run() {
        using step = load_fsm::step;
        while (fsm_.current() != step::done) fsm_.resume(perform(fsm_.current()));
        if (!fsm_.succeeded()) throw error(std::move(failures_), fsm_.state_modified());
        return std::move(phases_);
    }

private:
    using event = load_fsm::event;

    event perform(load_fsm::step s) {
        using enum load_fsm::step;
        switch (s) {
            case read_metadata: return worked("read metadata", [&] {
                reader_.reset(id_);
                return format::native::encode_metadata(reader_.read_metadata());
            });
            case exchange_metadata: return exchanged([&] { return receive_metadata(); });
            case plan_local: return worked("plan", [&] { return local_plan(); });
            case exchange_plans: return exchanged([&] {
                everybody_ = exchange_.gather(mine_);
                return collect_failures(everybody_);
            });
            case plan_global: return worked("plan for all", [&] { return global_plan(); });
            case exchange_global: return exchanged([&] { return scattered(); });
            case finish_plan: return worked("plan", [&] {
                plan_ = planner_.finish_load_plan(decode_load_plan(my_plan_));
                return std::vector<std::byte>();
            });
            case agree:
                return exchanged([&] { return collect_failures(exchange_.all_gather(mine_)); });
            case read: return worked("read", [&] { return read_items(); });
            case exchange_results: return moved_if_replaced(exchanged([&] { return compare(); }));
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
            failures_ = {failure_from(std::current_exception(), exchange_.rank())};
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
                               meta_.save_id, clock_.shown()};
        reader_.set_up_reader(std::as_const(meta_), me);
        return encode_load_plan(reader_.prepare_local_load_plan(planner_.create_local_load_plan()));
    }

    std::vector<std::byte> global_plan() {
        std::vector<load_plan> plans;
        for (auto const& o : everybody_) plans.push_back(decode_load_plan(o.payload));
        plans_ =
            reader_.prepare_global_load_plan(planner_.create_global_load_plan(std::move(plans)));
        if (plans_.size() != static_cast<std::size_t>(exchange_.size())) {
            throw error(errc::invalid_plan,
                        {.expected = std::to_string(exchange_.size()) + " plans, one per rank",
                         .found = std::to_string(plans_.size()),
                         .remedy = "the planner or reader dropped some"});
        }
        return {};
    }

    std::vector<rank_failure> scattered() {
        std::vector<outcome> all;
        if (exchange_.coordinator()) {
            auto failures = collect_failures(everybody_);
            if (failures.empty()) failures = mine_.failures;
            for (int r = 0; r < exchange_.size(); ++r) {
                outcome o;
                o.failures = failures;
                if (failures.empty())
                    o.payload = encode_load_plan(plans_[static_cast<std::size_t>(r)]);
                all.push_back(std::move(o));
            }
        }
        auto o = exchange_.scatter(all);
        my_plan_ = o.payload;
        return o.failures;
    }

    std::vector<std::byte> read_items() {
        std::vector<std::pair<const read_item*, value>> objects;
        read_target target;
        target.resolve_tensor = [this](const read_item& i) { return planner_.resolve_tensor(i); };
        target.commit_tensor = [this](const read_item& i, tensor_view v) {
            planner_.commit_tensor(i, v);
        };
        target.load_object = [&objects](const read_item& i, value v) {
            objects.emplace_back(&i, std::move(v));
        };
        (void)await_completion<done_t>([&](auto done) {
            reader_.read_data(std::as_const(plan_), std::as_const(target), std::move(done));
        });
        for (auto& [item, v] : objects) planner_.load_object(*item, std::move(v));
        if constexpr (requires { planner_.finish_load(); }) planner_.finish_load();
        clock_.stop();
        wire_writer w;
        clock_.put(w);
        return std::move(w.out);
    }
    std::vector<rank_failure> compare() {
        auto const all = exchange_.all_gather(mine_);
        auto failures = collect_failures(all);
        phase_table table;
        for (std::size_t rank = 0; failures.empty() && rank < all.size(); ++rank) {
            wire_reader r(all[rank].payload);
            table.get(r, static_cast<int>(rank));
        }
        phases_ = table.take();
        return failures;
    }

    event moved_if_replaced(event e) const {
        if (e != event::failed) return e;
        for (auto const& f : failures_)
            if (f.code == make_error_code(errc::not_found) ||
                f.code == make_error_code(errc::foreign_file))
                return event::moved;
        return e;
    }

    event look() {
        replaced_ = false;
        try {
            replaced_ = reader_.read_metadata().save_id != meta_.save_id;
        } catch (const error&) {  // it is gone altogether: the first failure says enough
        }
        return event::ok;
    }

    event restart() {
        auto const before = failures_;
        outcome o;
        if (exchange_.coordinator()) o.payload.push_back(std::byte{replaced_});
        auto const e = exchanged([&] {
            o = exchange_.broadcast(o);
            return o.failures;
        });
        if (e != event::ok) return e;
        failures_ = before;
        return !o.payload.empty() && o.payload[0] == std::byte{1} ? event::moved : event::failed;
    }

    flat_state& state_;
    std::exception_ptr refused_;
    const checkpoint_id& id_;
    phase_clock clock_;
    exchange<Comm> exchange_;
    Plan& planner_;
    Reader& reader_;
    load_fsm fsm_;
    metadata meta_;
    outcome mine_;
    std::vector<outcome> everybody_;
    std::vector<load_plan> plans_;
    std::vector<std::byte> my_plan_;
    load_plan plan_;
    bool replaced_ = false;
    std::vector<rank_failure> failures_;
    std::vector<phase_time> phases_;
};

}  // namespace cairn::detail

#endif
