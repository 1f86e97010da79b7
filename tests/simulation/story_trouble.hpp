// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_STORY_TROUBLE_HPP
#define CAIRN_TEST_SIMULATION_STORY_TROUBLE_HPP

#include "chance_world.hpp"

#include "support/fault_store.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace simulation {

/// What goes wrong while a job runs.
struct story_trouble {
    enum class kind {
        killed,        ///< a rank
        hung,          ///< a rank; it may go on later
        late,          ///< a rank begins later
        fault,         ///< one call of a rank's storage
        stuck,         ///< one call of a rank's storage takes very long
        slow,          ///< all calls of a rank's storage
        cancelled,     ///< by a rank
        dropped,       ///< the executor of a rank
        cut,           ///< the link between two ranks
        clock,         ///< a host's clock jumps
        job_killed,    ///< all ranks
        server_crash,  ///< everything
    };
    static constexpr const char* names[] = {"killed", "hung",  "late",       "fault",
                                            "stuck",  "slow",  "cancelled",  "dropped",
                                            "cut",    "clock", "job killed", "server crash"};

    kind what = kind::killed;
    int who = 0;
    int other = 0;
    chance_world::duration when{0};
    chance_world::duration lasts{
        0};                  ///< How long it hangs, is late or stuck; how far a clock jumps.
    support::fault fault{};  ///< Which call.

    std::string text() const {
        using namespace std::chrono;
        return names[static_cast<std::size_t>(what)] +
               (", rank " + std::to_string(who) + ", at " +
                std::to_string(duration_cast<microseconds>(when).count()) + " us, for " +
                std::to_string(duration_cast<milliseconds>(lasts).count()) + " ms, call " +
                std::to_string(fault.at));
    }

    /// A call of the coordinator's storage that takes longer than others wait for a sign of life.
    static story_trouble long_stop(std::mt19937_64& chance, int ranks, int saves) {
        story_trouble t;
        t.what = kind::stuck;
        t.lasts = std::chrono::hours(30);
        t.fault.at = static_cast<int>(chance() % static_cast<unsigned>((40 + 3 * ranks) * saves));
        return t;
    }
    /// @param saves  How many the job makes: troubles happen during any of them.
    static story_trouble some(std::mt19937_64& chance, int ranks, int saves) {
        using namespace std::chrono;
        auto const below = [&](auto n) { return chance() % static_cast<std::uint64_t>(n); };
        story_trouble t;
        t.what = static_cast<kind>(below(std::size(names)));
        // Half of them where most is decided.
        t.who = below(2) == 0 ? 0 : static_cast<int>(below(ranks));
        t.other = below(2) == 0 ? t.who / 3 : static_cast<int>(below(ranks));
        // A save takes about 30 ms.
        t.when = microseconds(below(below(4) != 0 ? 40'000 * saves : 300'000));
        switch (below(4)) {
            case 0: t.lasts = milliseconds(below(1'000)); break;
            case 1: t.lasts = seconds(below(40)); break;
            case 2: t.lasts = seconds(below(300)); break;
            default: t.lasts = hours(30); break;
        }
        if (t.what == kind::late && t.lasts > seconds(300)) t.lasts = seconds(35);
        if (t.what == kind::clock && below(2) == 0) t.lasts = -t.lasts;
        t.fault.at = static_cast<int>(below((t.who == 0 ? 60 + 3 * ranks : 12) * saves));
        t.fault.what = support::all_thrown[below(support::all_thrown.size())];
        t.fault.afterwards = below(2) == 0;
        return t;
    }
};

}  // namespace simulation

#endif
