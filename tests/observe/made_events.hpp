// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_OBSERVE_MADE_EVENTS_HPP
#define CAIRN_TESTS_OBSERVE_MADE_EVENTS_HPP

#include <cairn/observe/concepts.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

/// The events of one operation, at times that a test makes up.
template <cairn::EventSink S>
class made_events {
public:
    using clock = cairn::verb_event::clock;
    using kind = cairn::verb_event::kind;

    made_events(S sink, std::uint64_t operation, int rank = 0, int ranks = 1,
                std::string id = "ckpt/step_1")
        : sink_(sink), id_(std::move(id)) {
        e_.verb = "save";
        e_.id = id_;
        e_.operation = operation;
        e_.rank = rank;
        e_.ranks = ranks;
    }
    made_events(made_events&&) = delete;

    /// @param at  Milliseconds since the test began.
    void begin(int at) {
        began_ = time(at);
        e_.began = began_;
        send(kind::begin, at);
    }
    void phase(const char* name, int at) {
        e_.phase = name;
        e_.began = time(at);
        e_.bytes = e_.total_bytes = 0;
        send(kind::phase_begin, at);
    }
    void progress(std::uint64_t bytes, std::uint64_t total, int at) {
        e_.bytes = bytes;
        e_.total_bytes = total;
        send(kind::progress, at);
    }
    void phase_end(int at) {
        send(kind::phase_end, at);
        e_.phase = {};
        e_.bytes = e_.total_bytes = 0;
    }
    void end(int at, std::exception_ptr failure = nullptr) {
        e_.began = began_;
        e_.failure = std::move(failure);
        send(kind::end, at);
    }

private:
    static clock::time_point time(int ms) {
        return clock::time_point(std::chrono::hours(1) + std::chrono::milliseconds(ms));
    }
    void send(kind what, int at) {
        e_.what = what;
        e_.at = time(at);
        sink_.notify(e_);
    }

    S sink_;
    std::string id_;
    cairn::verb_event e_{};
    clock::time_point began_{};
};

#endif
