// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_LOAD_TURNS_HPP
#define CAIRN_LOAD_DETAIL_LOAD_TURNS_HPP

#include <cairn/completion.hpp>
#include <cairn/load/detail/device_windows.hpp>
#include <cairn/load/detail/read_once/broadcast_parts.hpp>
#include <cairn/load/detail/read_once/shared_reads.hpp>
#include <cairn/load/detail/stored_windows.hpp>
#include <cairn/metadata/detail/entry_cursor.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/part_call.hpp>
#include <cairn/verb/detail/phases.hpp>
#include <cairn/verb/detail/polling.hpp>
#include <cairn/verb/detail/state_devices.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The steps of one rank that may change memory: it reads and, with a data plane, broadcasts what
/// it read for all, in the turns of `shared_reads`.
class load_turns {
public:
    using then = std::function<void(std::exception_ptr)>;

    /// All arguments must outlive this. What is passed as `then` is called on the executor or
    /// inside the call, and keeps this alive.
    /// @param plane  May be null.
    load_turns(const surroundings& in, erased_load_planner& planner, state_devices& devices,
               erased_storage_reader& reader, erased_data_plane* plane, phase_clock& clock,
               std::chrono::milliseconds timeout, const metadata& stored)
        : in_(in), planner_(planner), on_host_(planner, devices), reader_(reader), plane_(plane),
          clock_(clock), timeout_(timeout), stored_(stored), windows_(on_host_, stored),
          copying_(in) {
        target_.resolve_tensor = [this](const read_item& i) {
            return shared_.will_hold(i) ? open_for_all(i, false) : windows_.open(i);
        };
        target_.resolve_converted = [this](const read_item& i) {
            return shared_.will_hold(i) ? open_for_all(i, true) : on_host_.resolve_tensor(i);
        };
        target_.commit_tensor = [this](const read_item& i, tensor_view v) {
            if (!shared_.hold(i, v)) windows_.close(i, v);
        };
        target_.load_value = [this](const read_item& i, value v) {
            values_.emplace_back(i, std::move(v));
        };
    }
    load_turns(load_turns&&) = delete;

    shared_reads& shared() noexcept { return shared_; }
    /// Returns the report after the last turn, without the phases.
    load_report take_report() {
        report_.read_once = shared_.report();
        report_.unverified = std::move(unverified_);
        return std::move(report_);
    }

    /// Returns the name of the next phase.
    const char* name() const { return shared_.reading() ? "read" : "broadcast"; }
    /// Reads the values of a finished plan, removes them from it, and checks that they fit. The
    /// user's state is not changed. A value that does not fit is a failure, if the planner can
    /// detect it.
    void read_values(load_plan& plan, then f) {
        values_.clear();
        windows_.clear();
        on_host_.clear();
        auto const values =
            std::stable_partition(plan.items.begin(), plan.items.end(),
                                  [](const read_item& i) { return i.kind != item_kind::value; });
        load_plan some;
        some.storage_data = plan.storage_data;
        some.items.assign(std::make_move_iterator(values),
                          std::make_move_iterator(plan.items.end()));
        plan.items.erase(values, plan.items.end());
        if (some.items.empty()) return f(nullptr);
        clock_.enter("read values");
        clock_.expect([&] { return content(some); });
        auto const n = some.items.size();
        read_data(owned(std::move(some)), target_, checked(std::move(f), [this, n] {
                      clock_.moved_rest();
                      if (values_.size() != n)
                          throw error(
                              errc::invalid_plan,
                              {.expected = std::to_string(n) + " values",
                               .found = std::to_string(values_.size()),
                               .remedy = "read_data of the StorageReader must hand on each value "
                                         "once"});
                      for (auto const& [item, v] : values_) planner_.check_value(item, v);
                  }));
    }
    /// Lets the reader read the items of this turn.
    /// @param plan  The finished plan, without its values; outlives the turn, and does not change.
    void read(const load_plan& plan, then done) {
        auto mine =
            shared_.none() ? some_items(some_items(), &plan) : owned(shared_.items_to_read(plan));
        clock_.expect([&] { return content(*mine); });
        read_data(std::move(mine), target_, checked(settled(std::move(done)), [this] {
                      clock_.moved_rest();
                      for (auto& [item, v] : std::exchange(values_, {}))
                          planner_.load_value(std::as_const(item), std::move(v));
                  }));
    }
    /// @param whole  Whether the data plane has all ranks of the job, numbered alike.
    void broadcast(const load_plan& plan, bool whole, then f) {
        f = settled(std::move(f));
        if (plane_ == nullptr) return f(nullptr);
        auto again = [this, &plan](part_broadcaster::reread pieces, then got) {
            read_pieces(plan.storage_data, std::move(pieces), std::move(got));
        };
        broadcaster_.emplace(in_, *plane_, windows_, on_host_, plan, std::move(again),
                             *clock_.activity(), timeout_, whole);
        clock_.expect([&] { return content(shared_.to_send()); });
        broadcaster_->run(shared_.to_send(), std::move(f));
    }
    /// Called after a turn.
    /// @return The message to the other ranks: this rank's times so far.
    std::vector<std::byte> end_of_turn() {
        if (shared_.last()) report_ = planner_.finish_load();
        clock_.stop();
        wire_writer w;
        put(w, clock_.times());
        return w.take();
    }

private:
    /// Items to read: a plan of their own, or that of the turn.
    using some_items = std::shared_ptr<const load_plan>;

    static some_items owned(load_plan p) { return std::make_shared<const load_plan>(std::move(p)); }

    /// Returns a continuation that first calls `check`, if nothing has failed; an exception of
    /// `check` is a failure.
    template <class F>
    static then checked(then f, F check) {
        return [f = std::move(f), check = std::move(check)](std::exception_ptr e) {
            if (!e) {
                try {
                    check();
                } catch (...) {
                    e = std::current_exception();
                }
            }
            f(std::move(e));
        };
    }
    /// Returns a continuation that waits until all data that a turn has read is in place, and no
    /// device is copying, even after a failure: a copy would change memory that the caller may use
    /// again.
    then settled(then done) {
        return [this,
                f = checked(std::move(done), [this] { on_host_.finish(); })](std::exception_ptr e) {
            if (!on_host_.in_use()) return f(e);
            try {
                copying_.run([this] { return on_host_.advance(); }, timeout_,
                             [this] { return on_host_.late(); },
                             [f, e](std::exception_ptr late) { f(e ? e : late); });
            } catch (...) {
                f(e ? e : std::current_exception());
            }
        };
    }
    /// Returns the bytes and items that a plan reads.
    std::pair<std::uint64_t, std::uint64_t> content(const load_plan& plan) const {
        std::uint64_t bytes = 0;
        entry_cursor stored(stored_);
        for (auto const& i : plan.items) {
            if (auto const* t = stored.tensor(i.fqn))
                bytes += static_cast<std::uint64_t>(i.shape.product()) * size_of(t->type);
            else if (auto const* v = stored.value(i.fqn))
                bytes += v->at.length;
        }
        return {bytes, plan.items.size()};
    }
    static std::pair<std::uint64_t, std::uint64_t> content(const std::vector<shared_part*>& sent) {
        std::uint64_t bytes = 0;
        for (auto const* p : sent) bytes += p->bytes;
        return {bytes, sent.size()};
    }
    /// Shared data is sent as it is stored: if this rank converts it for itself, it keeps a limited
    /// part in stored form.
    tensor_view open_for_all(const read_item& i, bool reader_converts) {
        auto const window = on_host_.resolve_tensor(i);
        auto const* t = stored_.tensor(i.fqn);
        bool const beside = t != nullptr && window.type != t->type;
        bool const whole = beside && !can_be_cut(i, *t);
        if (beside && !whole && !shared_.keep_beside(i) && reader_converts) return window;
        return windows_.open(i, window);
    }
    void read_pieces(const std::string& storage_data, part_broadcaster::reread pieces, then f) {
        load_plan some;
        some.storage_data = storage_data;
        again_ = std::move(pieces);
        again_at_.clear();
        committed_ = 0;
        for (auto const& [item, into] : again_) {
            again_at_.emplace(wanted_part::of(item), some.items.size());
            some.items.push_back(item);
        }
        again_target_.resolve_tensor = [this](const read_item& i) {
            auto const found = again_at_.find(wanted_part::of(i));
            if (found == again_at_.end())
                throw error(errc::invalid_plan,
                            {.fqn = i.fqn,
                             .expected = "an item of the plan that is read",
                             .found = "another one",
                             .remedy = "read_data of the StorageReader must pass on the items as "
                                       "they are"});
            return again_[found->second].second;
        };
        again_target_.resolve_converted = again_target_.resolve_tensor;
        again_target_.commit_tensor = [this](const read_item&, const tensor_view&) {
            ++committed_;
        };
        again_target_.load_value = [](const read_item&, const value&) {};
        read_data(owned(std::move(some)), again_target_, checked(std::move(f), [this] {
                      if (committed_ != again_.size())
                          throw error(errc::invalid_plan,
                                      {.fqn = again_.front().first.fqn,
                                       .expected = "a reader that commits what it has read"});
                  }));
    }
    /// Calls the reader. @param to  Outlives the read.
    void read_data(some_items some, const read_target& to, then f) {
        reading_ = std::move(some);
        call_part<read_result>(
            in_.executor, [&](auto done) { reader_.read_data(*reading_, to, std::move(done)); },
            [this, f = std::move(f)](call_result<read_result> r) {
                if (r.value) unverified_ = std::move(r.value->unverified);
                f(std::move(r.failure));
            });
    }

    const surroundings& in_;
    erased_load_planner& planner_;
    device_windows on_host_;  ///< The windows of the planner.
    erased_storage_reader& reader_;
    erased_data_plane* plane_;
    phase_clock& clock_;
    std::chrono::milliseconds timeout_;
    const metadata& stored_;
    stored_windows windows_;
    load_report report_{};
    shared_reads shared_{};
    std::vector<std::pair<read_item, value>> values_{};  ///< Not yet passed to the planner.
    some_items reading_{};                               ///< The items being read.
    read_target target_{};                               ///< To where: in a turn …
    read_target again_target_{};                         ///< … and a second time.
    std::vector<std::string> unverified_{};
    std::optional<part_broadcaster> broadcaster_{};
    part_broadcaster::reread again_{};  ///< The items being read a second time …
    std::map<wanted_part, std::size_t> again_at_{};
    std::atomic<std::size_t> committed_{0};  ///< … and how many of them have been.
    polling copying_;
};

}  // namespace cairn::detail

#endif
