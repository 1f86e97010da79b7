// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_KEPT_RULES_HPP
#define CAIRN_TEST_SIMULATION_KEPT_RULES_HPP

#include <cairn/catalog/retention.hpp>
#include <cairn/metadata/commit_record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace simulation {

/// Which checkpoints a training keeps, in numbers: what the library is told, and what is checked
/// without it.
struct kept_rules {
    int last = 1;                ///< 0: only the others; the newest stays anyway.
    std::int64_t every = 0;      ///< 0: not by steps.
    bool best = false;           ///< The one with the lowest "loss".
    std::string protected_id{};  ///< Empty: none.

    static kept_rules some(std::mt19937_64& chance) {
        kept_rules k;
        k.last = 1 + static_cast<int>(chance() % 3);
        if (chance() % 4 == 0) k.every = 30;
        k.best = chance() % 4 == 0;
        if (chance() % 4 == 0) k.protected_id = "step_20";
        if (k.best && chance() % 2 == 0) k.last = 0;
        return k;
    }
    cairn::retention told() const {
        auto r = best ? cairn::best(1, "loss") : cairn::last(last);
        if (best && last != 0) r = r | cairn::last(last);
        if (every != 0) r = r | cairn::every(every);
        if (!protected_id.empty()) r = r | cairn::protect({protected_id});
        return r;
    }
    /// A step has the same one whenever it is saved.
    static double loss(std::int64_t step) { return static_cast<double>(step * 7 % 110); }

    struct checkpoint {
        std::string id;
        cairn::commit_record record;
        std::size_t read = 0;  ///< Successfully, as the how-many-th by the run that asks; 0: not …
        std::size_t since = 0;  ///< … of which so many later saves have stood.
    };
    static bool is_older(const checkpoint& a, const checkpoint& b) {
        return std::tie(a.record.sequence, a.record.committed, a.record.save_id) <
               std::tie(b.record.sequence, b.record.committed, b.record.save_id);
    }
    /// The ids of those that stay.
    std::set<std::string> kept(std::vector<checkpoint> all) const {
        std::set<std::string> out;
        std::sort(all.begin(), all.end(), is_older);
        auto const most = static_cast<std::size_t>(std::max(last, 1));
        // What the run has read takes the place of the last one, until so many newer ones stand.
        auto const order = [&](auto const& c) { return c.since < most ? c.read : 0; };
        auto const read = std::max_element(all.begin(), all.end(),
                                           [&](auto& a, auto& b) { return order(a) < order(b); });
        auto left = most;
        if (read != all.end() && order(*read) != 0) {
            out.insert(read->id);
            --left;
        }
        for (auto c = all.rbegin(); c != all.rend() && left > 0; ++c)
            if (out.insert(c->id).second) --left;
        if (!all.empty()) out.insert(all.back().id);
        std::string lowest;
        double loss_of_lowest = 0;
        for (auto const& c : all) {
            if (c.id == protected_id || (every != 0 && c.record.step % every == 0))
                out.insert(c.id);
            if (lowest.empty() || loss(c.record.step) <= loss_of_lowest) {
                lowest = c.id;
                loss_of_lowest = loss(c.record.step);
            }
        }
        if (best) out.insert(lowest);
        return out;
    }
};

}  // namespace simulation

#endif
