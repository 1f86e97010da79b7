// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_SINK_LIST_HPP
#define CAIRN_OBSERVE_SINK_LIST_HPP

#include <cairn/observe/detail/erased_sink.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn {

/// An EventSink that passes every event to the sinks that were added to it: for sinks that are
/// chosen while the program runs. Copies share the list; an empty one is not an error.
class sink_list {
public:
    /// Adds a copy of a sink. Not while an operation uses the list.
    template <EventSink S>
    void add(const S& sink) {
        detail::add_sink(*sinks_, sink);
    }
    /// @throws whatever the first sink throws, after all have been notified
    void notify(const verb_event& e) {
        std::exception_ptr first;
        for (auto const& s : *sinks_) {
            try {
                s->notify(e);
            } catch (...) {
                if (!first) first = std::current_exception();
            }
        }
        if (first) std::rethrow_exception(std::move(first));
    }

private:
    std::shared_ptr<detail::erased_sinks> sinks_ = std::make_shared<detail::erased_sinks>();
};
static_assert(EventSink<sink_list>);

}  // namespace cairn

#endif
