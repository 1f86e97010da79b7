// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SMALL_JOB_HPP
#define CAIRN_TEST_SIMULATION_SMALL_JOB_HPP

#include "event_order.hpp"

#include <functional>
#include <string>
#include <vector>

namespace simulation {

enum class verb { fresh, overwrite, load };
/// What goes wrong, on one rank: after one event, in one operation of its store, or in what it
/// receives in one exchange.
enum class trouble { none, store_before, store_after, garbled, cancelled, killed, late, dropped };

/// A save or a load by a few ranks, and what goes wrong in it.
struct small_job {
    verb does = verb::fresh;
    int ranks = 2;
    trouble what = trouble::none;
    int who = 0;
    int at = 0;    ///< Counted from 1; of a rank that is killed, the events of its executor …
    int then = 0;  ///< … and those of its engine.

    /// Every verb, with every trouble on every rank.
    static std::vector<small_job> all(int ranks);
    /// @throws wrong
    static small_job parse(const std::string& text);

    /// As in `--only`.
    std::string name() const;
    /// As `parse` reads it.
    std::string text() const;

    /// How many events a run had, by rank, and whether the trouble happened.
    struct result {
        bool troubled = false;
        std::vector<int> on_executor{};
        std::vector<int> in_engine{};
    };
    /// @param explored  Called when the verb has ended: what follows happens in one order only.
    /// @throws wrong, redundant
    result run(event_order& order, const std::function<void()>& explored, bool trace) const;
};

}  // namespace simulation

#endif
