// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_LOAD_TURNS_HPP
#define CAIRN_LOAD_LOAD_TURNS_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/load/read_once/broadcast_parts.hpp>
#include <cairn/load/read_once/shared_reads.hpp>
#include <cairn/load/stored_windows.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The steps of one rank that may change memory: it reads and, with a data plane, broadcasts what
/// it read for all, in the turns of `shared_reads`.
class load_turns {
public:
    /// All arguments must outlive this.
    /// @param plane  May be null.
    load_turns(erased_load_planner& planner, erased_storage_reader& reader,
               erased_data_plane* plane, phase_clock& clock, std::chrono::milliseconds timeout,
               const metadata& stored)
        : planner_(planner), reader_(reader), plane_(plane), clock_(clock), timeout_(timeout),
          windows_(planner, stored) {}

    shared_reads& shared() noexcept { return shared_; }
    /// Returns the report after the last turn, without the phases.
    load_report take_report() {
        report_.read_once = shared_.report();
        return std::move(report_);
    }

    /// Returns the name of the next phase.
    const char* name() const {
        switch (shared_.current()) {
            case turn::read: return "read";
            case turn::broadcast: return "broadcast";
            case turn::read_rest: return "read the rest";
            default: return "broadcast the rest";
        }
    }
    /// Reads the values of a finished plan, removes them from it, and checks that they fit. The
    /// user's state is not changed.
    /// @throws error if one does not fit and the planner can detect that
    void read_values(load_plan& plan) {
        values_.clear();
        windows_.clear();
        load_plan some;
        some.storage_data = plan.storage_data;
        auto const is_tensor = [](const read_item& i) { return i.kind != item_kind::value; };
        auto const first = std::stable_partition(plan.items.begin(), plan.items.end(), is_tensor);
        some.items.assign(std::make_move_iterator(first),
                          std::make_move_iterator(plan.items.end()));
        plan.items.erase(first, plan.items.end());
        if (some.items.empty()) return;
        clock_.enter("read values");
        read_some(some);
        if (values_.size() != some.items.size())
            throw error(errc::invalid_plan,
                        {.expected = std::to_string(some.items.size()) + " values",
                         .found = std::to_string(values_.size()),
                         .remedy = "read_data of the StorageReader must hand on each value once"});
        for (auto const& [item, v] : values_) planner_.check_value(item, v);
    }
    /// @param plan  The finished plan, without its values.
    /// @return The message to the other ranks: this rank's times so far, and the bytes that they
    /// cover.
    std::vector<std::byte> read(const load_plan& plan) {
        if (shared_.none()) {
            // The other turns exist for ranks of other planes.
            if (shared_.current() == turn::read) read_own(plan);
            return end_of_turn();
        }
        if (shared_.current() == turn::read) read_own(shared_.own_items(plan));
        read_timed(shared_reads::each_read, shared_.each_items(plan));
        read_timed(shared_reads::once_read, shared_.items_for_all(plan));
        return end_of_turn();
    }
    /// @param whole  Whether the data plane has all ranks of the job, numbered alike.
    std::vector<std::byte> broadcast(const load_plan& plan, bool whole) {
        if (plane_ != nullptr)
            timed(shared_reads::once_sent, [&] {
                part_broadcaster(*plane_, windows_, planner_, plan, *clock_.activity(), timeout_,
                                 whole)
                    .run(shared_.to_send());
            });
        return end_of_turn();
    }
    /// Processes a rank's message, as returned by `read` and `broadcast`.
    void learn(wire_reader& r) {
        shared_reads::times spent;
        for (auto& t : spent)
            t = std::chrono::microseconds(static_cast<std::int64_t>(r.varint() & INT64_MAX));
        shared_reads::tries tried;
        for (auto& bytes : tried) bytes = r.varint();
        shared_.learn(spent, tried);
    }

private:
    using turn = shared_reads::turn;

    template <class F>
    void timed(shared_reads::trial what, F f) {
        auto const start = std::chrono::steady_clock::now();
        f();
        shared_.spent()[what] = std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now() - start);
    }
    void read_timed(shared_reads::trial what, const load_plan& some) {
        if (!some.items.empty()) timed(what, [&] { read_some(some); });
    }
    void read_own(const load_plan& own) {
        read_some(own);
        for (auto& [item, v] : std::exchange(values_, {}))
            planner_.load_value(std::as_const(item), std::move(v));
    }
    void read_some(const load_plan& some) {
        read_target target;
        target.resolve_tensor = [this](const read_item& i) { return windows_.open(i); };
        target.resolve_converted = [this](const read_item& i) {
            // Shared data is sent as it is stored.
            return shared_.will_hold(i) ? windows_.open(i) : planner_.resolve_tensor(i);
        };
        target.commit_tensor = [this](const read_item& i, tensor_view v) {
            if (!shared_.hold(i, v)) windows_.close(i, v);
        };
        target.load_value = [this](const read_item& i, value v) {
            values_.emplace_back(i, std::move(v));
        };
        auto result = await_completion<read_result>(
            [&](auto done) { reader_.read_data(some, std::as_const(target), std::move(done)); });
        report_.unverified = std::move(result.unverified);
    }
    std::vector<std::byte> end_of_turn() {
        if (shared_.last()) {
            auto unverified = std::move(report_.unverified);
            report_ = planner_.finish_load();
            report_.unverified = std::move(unverified);
        }
        clock_.stop();
        wire_writer w;
        for (auto const t : shared_.spent()) w.varint(static_cast<std::uint64_t>(t.count()));
        for (auto const bytes : shared_.tried()) w.varint(bytes);
        clock_.put(w);
        return std::move(w.out);
    }

    erased_load_planner& planner_;
    erased_storage_reader& reader_;
    erased_data_plane* plane_;
    phase_clock& clock_;
    std::chrono::milliseconds timeout_;
    stored_windows windows_;
    load_report report_{};
    shared_reads shared_{};
    std::vector<std::pair<read_item, value>> values_{};  ///< Not yet passed to the planner.
};

}  // namespace cairn::detail

#endif
