// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_GPU_ORDER_HPP
#define CAIRN_TEST_SUPPORT_FAKE_GPU_ORDER_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// What is ordered before what on a GPU: work in streams, joined by events and by what the host has
/// seen to be complete. Two accesses of one place that nothing orders are a race, whether or not
/// they happen to run in a harmless order.
namespace support::gpu {

/// How far each stream had come, by the stream's number.
class vector_clock {
public:
    std::uint64_t operator[](std::size_t stream) const {
        return stream < at_.size() ? at_[stream] : 0;
    }
    void advance(std::size_t stream, std::uint64_t to) {
        if (at_.size() <= stream) at_.resize(stream + 1);
        at_[stream] = std::max(at_[stream], to);
    }
    void join(const vector_clock& other) {
        for (std::size_t s = 0; s < other.at_.size(); ++s) advance(s, other.at_[s]);
    }

private:
    std::vector<std::uint64_t> at_{};
};

struct access {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool write = false;

    bool conflicts(const access& o) const {
        return (write || o.write) && begin < o.end && o.begin < end;
    }
};

struct work;
using work_ptr = std::shared_ptr<work>;

/// One operation in a stream.
struct work {
    std::string what{};
    std::vector<access> accesses{};
    std::function<void()> run{};    ///< May be empty.
    std::vector<work_ptr> after{};  ///< Besides what is before it in its stream.
    std::size_t stream = 0;
    std::uint64_t number = 0;  ///< In its stream, from 1.
    vector_clock when{};       ///< What is ordered before it, itself included.
    bool held = false;
    bool done = false;

    bool is_after(const work& other) const { return when[other.stream] >= other.number; }
    bool ready() const {
        return !held && std::all_of(after.begin(), after.end(), [](auto& w) { return w->done; });
    }
};

struct stream {
    std::size_t number = 0;
    int device = 0;
    bool blocking = true;  ///< Waits for the device's stream 0, and the reverse.
    bool destroyed = false;
    bool own = false;   ///< Made through the API, not by the test.
    int capturing = 0;  ///< 0: no; otherwise a capture mode.
    bool capture_broken = false;
    std::deque<work_ptr> todo{};
    work_ptr last{};  ///< Enqueued; done or not.
    std::uint64_t enqueued = 0;
};

/// The operations of all streams, and the races among them.
class schedule {
public:
    /// @return What the new operation races with, in words; empty if with none.
    std::string enqueue(stream& s, const work_ptr& w) {
        w->stream = s.number;
        w->number = ++s.enqueued;
        w->when.join(seen_by_host_);
        if (s.last) w->when.join(s.last->when);
        for (auto const& a : w->after) w->when.join(a->when);
        w->when.advance(s.number, w->number);
        s.todo.push_back(w);
        s.last = w;

        std::erase_if(live_, [&](auto& old) {
            return old->done && seen_by_host_[old->stream] >= old->number;
        });
        std::string races;
        for (auto const& old : live_)
            if (!w->is_after(*old) && conflict(*old, *w))
                races = w->what + " is not ordered after " + old->what;
        if (!w->accesses.empty()) live_.push_back(w);
        return races;
    }
    /// The host knows that it is complete.
    void observed(const work& w) { seen_by_host_.join(w.when); }
    /// Operations that nobody knows to be complete and that touch these bytes.
    std::string touching(const std::byte* begin, std::size_t n) const {
        work probe;
        probe.accesses = {{begin, begin + n, true}};
        for (auto const& old : live_)
            if (!(old->done && seen_by_host_[old->stream] >= old->number) && conflict(*old, probe))
                return old->what;
        return {};
    }

    /// What touches these bytes and has not run never will: the test goes on, without them.
    void drop(const std::byte* begin, std::size_t n) {
        work probe;
        probe.accesses = {{begin, begin + n, true}};
        for (auto const& w : live_)
            if (!w->done && conflict(*w, probe)) w->run = {};
    }

private:
    static bool conflict(const work& a, const work& b) {
        for (auto const& x : a.accesses)
            for (auto const& y : b.accesses)
                if (x.conflicts(y)) return true;
        return false;
    }

    vector_clock seen_by_host_{};
    std::vector<work_ptr> live_{};
};

}  // namespace support::gpu

#endif
