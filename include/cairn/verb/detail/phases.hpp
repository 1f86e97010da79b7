// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_PHASES_HPP
#define CAIRN_VERB_DETAIL_PHASES_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/observe/detail/observation.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Times this rank's phases, and publishes them to ranks that wait for it and to sinks.
class phase_clock {
public:
    explicit phase_clock(const erased_sinks& sinks)
        : seen_(sinks.empty() ? nullptr : std::make_shared<observation>(sinks)) {}

    const std::shared_ptr<cairn::activity>& activity() const noexcept { return activity_; }

    /// Notifies the sinks, if there are any, that the verb begins; see `observation`.
    void begin(const char* verb, std::string_view id, int rank, int ranks) noexcept {
        if (seen_) seen_->begin(verb, id, rank, ranks);
    }
    /// Ends the last phase. The sinks are released.
    void end(const std::exception_ptr& failure) noexcept {
        if (!seen_) return;
        if (current_ != nullptr) seen_->leave();
        current_ = nullptr;
        seen_->end(failure);
    }
    /// Ends the previous phase and begins one.
    /// @param phase  A string literal.
    void enter(const char* phase) {
        stop();
        current_ = phase;
        since_ = activity::clock::now();
        activity_->enter(phase);
        if (seen_) seen_->enter(phase);
    }
    /// Adds to the total of what the current phase will move, for the sinks.
    /// @param count  Returns bytes and items; not called if there are no sinks.
    template <class Count>
    void expect(Count count) {
        if (!seen_ || current_ == nullptr) return;
        std::pair<std::uint64_t, std::uint64_t> const bytes_and_items = count();
        seen_->expect(bytes_and_items.first, bytes_and_items.second);
    }
    /// Reports that everything that the current phase was expected to move has moved.
    void moved_rest() noexcept {
        if (seen_ && current_ != nullptr) seen_->moved_rest();
    }
    void stop() {
        if (current_ == nullptr) return;
        if (seen_) seen_->leave();
        auto const took =
            std::chrono::duration_cast<std::chrono::microseconds>(activity::clock::now() - since_);
        times_.push_back({std::exchange(current_, nullptr), 0, took, took});
    }
    /// The finished phases, of this rank alone.
    const std::vector<phase_time>& times() const noexcept { return times_; }

private:
    std::shared_ptr<observation> seen_{};  ///< Null: no sinks.
    std::shared_ptr<cairn::activity> activity_ =
        std::make_shared<cairn::activity>([s = seen_](std::uint64_t bytes) {
            if (s) s->moved(bytes);
        });
    const char* current_ = nullptr;
    activity::clock::time_point since_{};
    std::vector<phase_time> times_{};
};

inline void put(wire_writer& w, const std::vector<phase_time>& all) {
    w.varint(all.size());
    for (auto const& p : all) {
        w.string(p.phase);
        w.varint(static_cast<std::uint64_t>(p.slowest_rank));
        w.varint(static_cast<std::uint64_t>(p.slowest.count()));
        w.varint(static_cast<std::uint64_t>(p.fastest.count()));
    }
}
inline std::vector<phase_time> get_phases(wire_reader& r) {
    std::vector<phase_time> all(r.count(4));
    for (auto& p : all) {
        p.phase = r.string();
        p.slowest_rank = static_cast<int>(r.varint() & INT32_MAX);
        p.slowest = std::chrono::microseconds(static_cast<std::int64_t>(r.varint() & INT64_MAX));
        p.fastest = std::chrono::microseconds(static_cast<std::int64_t>(r.varint() & INT64_MAX));
    }
    return all;
}

/// All ranks' phases; call `get` in rank order.
class phase_table {
public:
    void get(wire_reader& r, int rank) {
        for (auto& p : get_phases(r)) {
            auto const it = std::find_if(all_.begin(), all_.end(),
                                         [&](auto const& known) { return known.phase == p.phase; });
            p.slowest_rank = rank;
            if (it == all_.end()) {
                all_.push_back(std::move(p));
            } else if (p.slowest > it->slowest) {
                it->slowest = p.slowest;
                it->slowest_rank = rank;
            } else {
                it->fastest = std::min(it->fastest, p.fastest);
            }
        }
    }
    std::vector<phase_time> take() { return std::exchange(all_, {}); }

private:
    std::vector<phase_time> all_{};
};

}  // namespace cairn::detail

#endif
