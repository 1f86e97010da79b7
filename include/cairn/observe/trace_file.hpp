// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_TRACE_FILE_HPP
#define CAIRN_OBSERVE_TRACE_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/observe/concepts.hpp>

#include <memory>
#include <string>

namespace cairn {

/// Writes a timeline of verbs and their phases as a JSON array of Chrome's trace events, which
/// ui.perfetto.dev and chrome://tracing show: a process for each rank, a track for each verb that
/// overlaps others, and the bytes that phases move as counters, at most ten times a second.
///
/// Ranks that are threads share one; ranks that are processes write a file each, e.g. with the rank
/// in its name. Times are microseconds since 1970, so that `jq -s add trace.*.json` joins them.
///
/// The array is closed after each event: the file of a process that is killed is valid JSON too.
/// (At worst its last event is truncated, which the viewers accept.) It lacks the ends of the
/// phases that were running.
class trace_file {
public:
    /// Creates the file, or empties it. @throws error errc::io
    CAIRN_DECL explicit trace_file(std::string path);
    CAIRN_DECL void notify(const verb_event& e);

private:
    class state;
    std::shared_ptr<state> s_;
};
static_assert(EventSink<trace_file>);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/trace_file.ipp>
#endif

#endif
