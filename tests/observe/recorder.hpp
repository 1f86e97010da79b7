// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_OBSERVE_RECORDER_HPP
#define CAIRN_TESTS_OBSERVE_RECORDER_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/observe/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// A sink that keeps everything, and what must hold of it.
class recorder {
public:
    using kind = cairn::verb_event::kind;
    struct seen {
        kind what;
        std::string verb, id, phase;
        int rank, ranks;
        std::uint64_t operation, bytes, total, items;
        std::string failure;  ///< Empty: none.
        cairn::verb_event::clock::time_point began, at;
    };

    void notify(const cairn::verb_event& e) {
        std::lock_guard const lock(s_->m);
        s_->all.push_back({e.what, std::string(e.verb), std::string(e.id), std::string(e.phase),
                           e.rank, e.ranks, e.operation, e.bytes, e.total_bytes, e.items,
                           e.failure ? cairn::detail::text_of(e.failure) : "", e.began, e.at});
    }

    /// All events, in the order of each operation.
    std::vector<seen> all() const {
        std::lock_guard const lock(s_->m);
        return s_->all;
    }
    std::vector<seen> of_rank(int rank) const {
        auto events = all();
        std::erase_if(events, [&](auto const& e) { return e.rank != rank; });
        return events;
    }
    /// The phases of a rank, in order; a colon before what failed in the end.
    std::string phases(int rank = 0) const {
        std::string out;
        for (auto const& e : of_rank(rank)) {
            if (e.what == kind::phase_begin) out += (out.empty() ? "" : ", ") + e.phase;
            if (e.what == kind::end) out += e.failure.empty() ? "." : ": " + e.failure;
        }
        return out;
    }
    /// The end of the last phase of this name.
    seen last(int rank, const std::string& phase) const {
        seen found{};
        for (auto& e : of_rank(rank))
            if (e.what == kind::phase_end && e.phase == phase) found = e;
        return found;
    }

    /// What is wrong with the order of the events; empty: nothing.
    std::string problem() const {
        std::map<std::uint64_t, std::vector<seen>> operations;
        for (auto& e : all()) operations[e.operation].push_back(e);
        for (auto const& [n, events] : operations) {
            if (events.front().what != kind::begin) return "no begin";
            if (events.back().what != kind::end) return "no end";
            std::string phase;
            auto at = events.front().at;
            std::uint64_t bytes = 0;
            for (std::size_t i = 0; i < events.size(); ++i) {
                auto const& e = events[i];
                if (e.at < at || e.at < e.began) return "time goes back";
                at = e.at;
                if (e.rank != events[0].rank || e.verb != events[0].verb || e.id != events[0].id)
                    return "one operation, but not the same verb";
                bool const inside = i != 0 && i + 1 != events.size();
                switch (e.what) {
                    case kind::begin:
                    case kind::end:
                        if (inside) return "begin or end in the middle";
                        if (!phase.empty() || !e.phase.empty()) return "a phase without an end";
                        break;
                    case kind::phase_begin:
                        if (!phase.empty() || e.phase.empty()) return "a phase inside a phase";
                        if (e.bytes + e.total + e.items != 0) return "counts of another phase";
                        phase = e.phase;
                        bytes = 0;
                        break;
                    case kind::progress:
                        if (e.phase != phase || phase.empty()) return "progress without a phase";
                        if (e.bytes < bytes) return "bytes go back";
                        bytes = e.bytes;
                        break;
                    case kind::phase_end:
                        if (e.phase != phase || phase.empty()) return "the end of no phase";
                        phase.clear();
                }
            }
        }
        return {};
    }

private:
    struct state {
        std::mutex m;
        std::vector<seen> all;
    };
    std::shared_ptr<state> s_ = std::make_shared<state>();
};

#endif
