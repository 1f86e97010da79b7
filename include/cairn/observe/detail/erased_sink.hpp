// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_DETAIL_ERASED_SINK_HPP
#define CAIRN_OBSERVE_DETAIL_ERASED_SINK_HPP

#include <cairn/observe/concepts.hpp>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A type-erased EventSink.
class erased_sink {
public:
    erased_sink() = default;
    erased_sink(erased_sink&&) = delete;
    virtual ~erased_sink() = default;

    virtual void notify(const verb_event&) = 0;
};
using erased_sinks = std::vector<std::shared_ptr<erased_sink>>;

/// The type-erased form of a copy of a sink.
template <EventSink S>
class sink_of final : public erased_sink {
public:
    explicit sink_of(const S& s) : s_(s) {}
    void notify(const verb_event& e) override { s_.notify(e); }

private:
    S s_;
};

/// Adds a copy of a sink; does nothing with any other part.
template <class Part>
void add_sink(erased_sinks& to, const Part& part) {
    if constexpr (EventSink<Part>) to.push_back(std::make_shared<sink_of<Part>>(part));
}

}  // namespace cairn::detail

#endif
