// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_EVENT_ORDER_HPP
#define CAIRN_TEST_SIMULATION_EVENT_ORDER_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulation {

/// What an event has touched: two events that touch nothing in common can change places.
struct footprint {
    int actor = 0;            ///< Events of one actor never commute …
    bool in_vain = false;     ///< … but those of a dead rank: nothing happens in them.
    bool is_last = false;     ///< From here on the actor's events are in vain.
    bool everything = false;  ///< Time has passed, because nothing else could happen.
    bool lists = false;       ///< All names of the store.
    std::vector<std::size_t> reads{};
    std::vector<std::size_t> writes{};

    bool commutes_with(const footprint& b) const {
        if (everything || b.everything) return false;
        if (actor == b.actor) {
            if (in_vain && b.in_vain) return true;
            if (in_vain) return !b.is_last;
            return b.in_vain && !is_last;
        }
        return !disturbs(b) && !b.disturbs(*this);
    }

private:
    bool disturbs(const footprint& b) const {
        if (b.lists && !writes.empty()) return true;
        return std::any_of(writes.begin(), writes.end(), [&](auto name) {
            return std::count(b.reads.begin(), b.reads.end(), name) != 0 ||
                   std::count(b.writes.begin(), b.writes.end(), name) != 0;
        });
    }
};

/// An order that needs no run: it differs from another one only by events that commute.
struct redundant {};

/// An event that can happen next.
struct ready_event {
    std::uint64_t id;        ///< The same in every order in which the same happened before it.
    std::vector<int> after;  ///< Events, by their number, without which it could not happen.
};

/// Decides what happens next.
class event_order {
public:
    virtual ~event_order() = default;
    virtual std::size_t choose(const std::vector<ready_event>& ready) = 0;
    virtual void happened(const footprint& f) = 0;
};

}  // namespace simulation

#endif
