// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_OBSERVATION_IPP
#define CAIRN_OBSERVE_IMPL_OBSERVATION_IPP

#include <cairn/observe/detail/observation.hpp>

#include <cairn/detail/failures.hpp>
#include <cairn/printable.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

namespace cairn::detail {

/// Prints what a sink has thrown as one line on standard error.
CAIRN_DECL void print_sink_failure(const verb_event& in, const std::exception_ptr& e) noexcept {
    try {
        std::fprintf(stderr,
                     "cairn: rank %d: an event sink failed in the %s '%s', which continues: %s\n",
                     in.rank, std::string(in.verb).c_str(), terminal_text(in.id).c_str(),
                     text_of(e).c_str());
    } catch (...) {  // no memory for the text
        std::fputs("cairn: an event sink failed\n", stderr);
    }
}

CAIRN_DECL observation::observation(const erased_sinks& sinks) {
    for (auto const& s : sinks) sinks_.push_back({s});
}

inline constinit std::atomic<std::uint64_t> operations_begun{0};

CAIRN_DECL void observation::begin(const char* verb, std::string_view id, int rank,
                                   int ranks) noexcept {
    std::lock_guard const lock(m_);
    now_.verb = verb;
    now_.id = id;
    now_.rank = rank;
    now_.ranks = ranks;
    now_.operation = ++operations_begun;
    now_.at = now_.began = began_ = verb_event::clock::now();
    tell(verb_event::kind::begin);
}
CAIRN_DECL void observation::enter(const char* phase) noexcept {
    std::lock_guard const lock(m_);
    now_.phase = phase;
    now_.at = now_.began = verb_event::clock::now();
    tell(verb_event::kind::phase_begin);
}
CAIRN_DECL void observation::expect(std::uint64_t bytes, std::uint64_t items) noexcept {
    std::lock_guard const lock(m_);
    now_.at = verb_event::clock::now();
    now_.total_bytes += bytes;
    now_.items += items;
    tell(verb_event::kind::progress);
}
CAIRN_DECL void observation::moved(std::uint64_t bytes) noexcept {
    std::lock_guard const lock(m_);
    // A part may keep the activity, and report to it outside of a phase.
    if (!sinks_.empty() && !now_.phase.empty()) add(bytes);
}
CAIRN_DECL void observation::moved_rest() noexcept {
    std::lock_guard const lock(m_);
    if (now_.bytes < now_.total_bytes) add(now_.total_bytes - now_.bytes);
}
CAIRN_DECL void observation::leave() noexcept {
    std::lock_guard const lock(m_);
    now_.at = verb_event::clock::now();
    tell(verb_event::kind::phase_end);
    now_.phase = {};
    now_.bytes = now_.total_bytes = now_.items = 0;
}
CAIRN_DECL void observation::end(const std::exception_ptr& failure) noexcept {
    std::vector<told> sinks;  // their destructors run without the lock
    std::lock_guard const lock(m_);
    now_.at = verb_event::clock::now();
    now_.began = began_;
    now_.failure = failure;
    tell(verb_event::kind::end);
    now_ = {};
    sinks.swap(sinks_);
}

CAIRN_DECL void observation::add(std::uint64_t bytes) noexcept {
    now_.at = verb_event::clock::now();
    now_.bytes += bytes;
    tell(verb_event::kind::progress);
}
CAIRN_DECL void observation::tell(verb_event::kind what) noexcept {
    now_.what = what;
    for (auto& s : sinks_) {
        try {
            s.sink->notify(now_);
        } catch (...) {
            if (!std::exchange(s.has_thrown, true))
                print_sink_failure(now_, std::current_exception());
        }
    }
}

}  // namespace cairn::detail

#endif
