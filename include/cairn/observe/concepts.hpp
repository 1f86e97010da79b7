// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_CONCEPTS_HPP
#define CAIRN_OBSERVE_CONCEPTS_HPP

#include <cairn/observe/verb_event.hpp>

#include <concepts>
#include <type_traits>

namespace cairn {

/// Receives the events of a verb while it runs: for progress displays, traces, metrics, logs. A
/// part of every verb, of which there may be several.
///
/// Given `s` of type `S&` and `e` of type `const verb_event&`:
///
/// | Expression    | Type   | Meaning                |
/// |---------------|--------|------------------------|
/// | `s.notify(e)` | `void` | something has happened |
///
/// **Semantics**
/// - *Copies*: a verb uses copies, until the operation has ended, and never the object that was
///   passed. A sink is a handle: all copies stand for one sink, and share what they collect.
/// - *Order*: the events of one operation are delivered one at a time and in order: `begin`;
///   phases, each with a `phase_begin`, any number of `progress` and a `phase_end`; `end`. Then the
///   operation has released its copies, and the verb completes. (A cancelled one may complete
///   before `end`.)
/// - *Threads*: any, and several at the same time: ranks that are threads, and verbs that overlap,
///   may share a sink. `verb_event::operation` tells their events apart.
/// - *Blocking*: the operation waits for `notify`, and for that of `progress` between two writes or
///   reads. A sink returns within microseconds, and never waits for an operation.
/// - *Errors*: an exception of any type has no effect on the operation. The first one that a sink
///   throws in an operation is printed as one line on standard error; later events are still
///   delivered.
/// - *Which operations*: a verb that fails before its ranks begin to exchange, e.g. because its
///   communicator cannot be duplicated, has no events. On a rank whose program ends before the
///   operation does, the last ones are missing.
///
/// Not required: a sink is neither assignable nor default constructible.
/// **Models**: `progress_line`, `trace_file`, `prometheus_metrics`, `sink_list`.
/// **Archetype**: `archetype::event_sink`. **Conformance**: `cairn/testing/event_sink.hpp`.
template <class S>
concept EventSink =
    std::is_object_v<S> && std::copy_constructible<S> && requires(S& s, const verb_event& e) {
        { s.notify(e) } -> std::same_as<void>;
    };

}  // namespace cairn

#endif
