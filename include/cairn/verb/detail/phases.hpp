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
#include <span>
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
        times_.emplace_back(std::exchange(current_, nullptr), took.count());
    }
    /// Encodes the finished phases, for the coordinator.
    void put(wire_writer& w) const {
        w.varint(times_.size());
        for (auto const& [phase, t] : times_) {
            w.string(phase);
            w.varint(static_cast<std::uint64_t>(std::max<std::int64_t>(0, t)));
        }
    }

private:
    std::shared_ptr<observation> seen_{};  ///< Null: no sinks.
    std::shared_ptr<cairn::activity> activity_ = std::make_shared<cairn::activity>(seen_);
    const char* current_ = nullptr;
    activity::clock::time_point since_{};
    std::vector<std::pair<std::string, std::int64_t>> times_{};
};

/// All ranks' phases; call `get` in rank order.
class phase_table {
public:
    void get(wire_reader& r, int rank) {
        for (auto n = r.count(2); n-- > 0;) {
            auto const phase = r.string();
            std::chrono::microseconds const t(static_cast<std::int64_t>(r.varint() & INT64_MAX));
            auto const it = std::find_if(all_.begin(), all_.end(),
                                         [&](auto const& p) { return p.phase == phase; });
            if (it == all_.end()) {
                all_.push_back({phase, rank, t, t});
            } else if (t > it->slowest) {
                it->slowest = t;
                it->slowest_rank = rank;
            } else {
                it->fastest = std::min(it->fastest, t);
            }
        }
    }
    std::vector<phase_time> take() { return std::exchange(all_, {}); }

    static std::vector<std::byte> encode(const std::vector<phase_time>& all) {
        wire_writer w;
        w.varint(all.size());
        for (auto const& p : all) {
            w.string(p.phase);
            w.varint(static_cast<std::uint64_t>(p.slowest_rank));
            w.varint(static_cast<std::uint64_t>(p.slowest.count()));
            w.varint(static_cast<std::uint64_t>(p.fastest.count()));
        }
        return w.take();
    }
    static std::vector<phase_time> decode(std::span<const std::byte> b) {
        wire_reader r(b);
        std::vector<phase_time> all;
        for (auto n = r.count(4); n-- > 0;) {
            phase_time p;
            p.phase = r.string();
            p.slowest_rank = static_cast<int>(r.varint() & INT32_MAX);
            p.slowest =
                std::chrono::microseconds(static_cast<std::int64_t>(r.varint() & INT64_MAX));
            p.fastest =
                std::chrono::microseconds(static_cast<std::int64_t>(r.varint() & INT64_MAX));
            all.push_back(std::move(p));
        }
        return all;
    }

private:
    std::vector<phase_time> all_{};
};

}  // namespace cairn::detail

#endif
