// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_EVENT_SINK_HPP
#define CAIRN_TESTS_ARCHETYPE_EVENT_SINK_HPP

#include "stingy.hpp"

#include <cairn/observe/concepts.hpp>

#include <atomic>
#include <memory>

/// The least that `EventSink` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Counts. It can be copied, and nothing else.
class event_sink {
public:
    explicit event_sink(std::shared_ptr<std::atomic<int>> events) : events_(std::move(events)) {}
    event_sink(const event_sink&) = default;
    event_sink& operator=(const event_sink&) = delete;

    void notify(const_lvalue<verb_event>) { ++*events_; }

    void operator&() const = delete;
    template <class T>
    void operator,(T&&) const = delete;

private:
    std::shared_ptr<std::atomic<int>> events_;
};
static_assert(EventSink<event_sink>);

// Each misses one requirement.
struct sink_not_copyable : event_sink {
    sink_not_copyable(const sink_not_copyable&) = delete;
    sink_not_copyable(sink_not_copyable&&);
};
struct sink_copied_from_mutable : event_sink {
    sink_copied_from_mutable(sink_copied_from_mutable&);
};
struct sink_without_notify : event_sink {
    void notify() = delete;
};
struct sink_notify_returns : event_sink {
    bool notify(const verb_event&);
};
struct sink_notify_changes_the_event : event_sink {
    void notify(verb_event&);
};
struct sink_notify_takes_the_event : event_sink {
    void notify(verb_event&&);
};
struct sink_notify_of_kind : event_sink {
    void notify(verb_event::kind);
};
struct sink_is_a_function {
    void operator()(const verb_event&);
};
struct sink_is_private : private event_sink {};

static_assert(!EventSink<sink_not_copyable> && !EventSink<sink_copied_from_mutable>);
static_assert(!EventSink<sink_without_notify> && !EventSink<sink_notify_returns>);
static_assert(!EventSink<sink_notify_changes_the_event> && !EventSink<sink_notify_takes_the_event>);
static_assert(!EventSink<sink_notify_of_kind> && !EventSink<sink_is_a_function>);
static_assert(!EventSink<sink_is_private>);
// References are not parts; what they refer to is.
static_assert(!EventSink<event_sink&> && !EventSink<const event_sink> && !EventSink<int>);

}  // namespace cairn::archetype

#endif
