// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_EVENT_SINK_HPP
#define CAIRN_TESTING_EVENT_SINK_HPP

#include <cairn/observe/concepts.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Checks the semantics of an EventSink, for models of your own. Needs no test framework.
namespace cairn::testing {

namespace detail {

/// Sends a sink the events of an operation on one rank.
template <EventSink S>
class sent_events {
public:
    /// @param operation  A different number for each object.
    sent_events(S sink, std::uint64_t operation, int rank, int ranks) : sink_(sink) {
        now_.verb = operation % 2 == 0 ? "load" : "async_save";
        now_.id = id_;
        now_.rank = rank;
        now_.ranks = ranks;
        now_.operation = operation;
        now_.at = verb_event::clock::now();
    }
    sent_events(sent_events&&) = delete;

    void begin() {
        began_ = now_.at;
        send(verb_event::kind::begin);
    }
    /// @param bytes  0: a phase that moves none, or reports none.
    void phase(const char* name, std::uint64_t bytes, bool total_known) {
        now_.phase = name;
        now_.began = now_.at;
        send(verb_event::kind::phase_begin);
        if (total_known) now_.total_bytes = bytes;
        now_.items = 3;
        send(verb_event::kind::progress);
        for (std::uint64_t n = 1; bytes != 0 && n <= 20; ++n) {
            now_.bytes = bytes / 20 * n + 1;  // more than the total, in the end
            send(verb_event::kind::progress);
        }
        send(verb_event::kind::phase_end);
        now_.phase = {};
        now_.bytes = now_.total_bytes = now_.items = 0;
    }
    void end(std::exception_ptr failure) {
        now_.failure = std::move(failure);
        now_.began = began_;
        send(verb_event::kind::end);
    }

private:
    void send(verb_event::kind what) {
        now_.what = what;
        now_.at += std::chrono::milliseconds(30);
        sink_.notify(std::as_const(now_));
    }

    S sink_;
    std::string id_ = "step \"1\"\\\n\xff";
    verb_event now_{};
    verb_event::clock::time_point began_{};
};

}  // namespace detail

/// Runs all checks: whole operations, ones that fail, and ones that overlap in several threads,
/// each with a copy of the sink. Run it with ThreadSanitizer too.
/// @return Descriptions of the failures; empty if there are none.
template <EventSink S>
std::vector<std::string> event_sink_suite(const S& sink) {
    std::vector<std::string> failures;
    std::mutex m;
    std::uint64_t last_operation = 0;
    auto const run = [&](const char* name, const std::function<void()>& check) {
        auto const why = detail::why_not(check);
        if (why.empty()) return;
        std::lock_guard const lock(m);
        failures.push_back(std::string(name) + ": " + why);
    };
    auto const operation = [&](int rank, int ranks, std::exception_ptr failure) {
        std::unique_lock lock(m);
        auto const number = UINT64_MAX / 2 + ++last_operation;  // not one of the library's
        lock.unlock();
        detail::sent_events<S> events(sink, number, rank, ranks);
        events.begin();
        events.phase("plan", 0, false);
        events.phase("write", 1'000'000, true);
        events.phase("write", std::uint64_t{1} << 40, false);
        events.end(std::move(failure));
    };
    run("one rank", [&] { operation(0, 1, nullptr); });
    run("a failed operation", [&] {
        operation(0, 1, std::make_exception_ptr(std::runtime_error("\x01 it \"failed\"")));
    });
    run("a failure of another type", [&] { operation(0, 1, std::make_exception_ptr(1)); });
    run("an operation without phases", [&] {
        detail::sent_events<S> events(sink, UINT64_MAX, 0, 1);
        events.begin();
        events.end(nullptr);
    });
    run("operations that overlap on one rank", [&] {
        detail::sent_events<S> one(sink, UINT64_MAX - 2, 0, 2), two(sink, UINT64_MAX - 1, 0, 2);
        one.begin();
        two.begin();
        one.phase("plan", 0, false);
        two.phase("plan", 0, false);
        one.end(nullptr);
        two.end(nullptr);
    });
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank)
        threads.emplace_back([&, rank] {
            run("ranks in threads", [&] {
                for (int n = 0; n < 20; ++n) operation(rank, 4, nullptr);
            });
        });
    for (auto& t : threads) t.join();
    return failures;
}

}  // namespace cairn::testing

#endif
