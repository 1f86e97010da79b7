// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_PLACE_RESULTS_HPP
#define CAIRN_SAVE_PLACE_RESULTS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/item_key.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Fills the locations that ranks wrote to into the metadata of a save, matched by name and box.
class result_placer {
public:
    /// @param m  Must outlive this; entries must not be added or removed.
    explicit result_placer(metadata& m) : meta_(m) {
        for (auto& [fqn, entry] : meta_.entries) {
            if (auto* t = std::get_if<tensor_metadata>(&entry))
                for (auto& c : t->chunks)
                    if (chunks_.try_emplace(item_key(fqn, c.region), places_.size()).second)
                        places_.push_back(&c.at);
        }
    }

    void place(const save_plan& plan, write_results results, int rank) {
        for (auto& r : results.items) {
            if (r.item >= plan.items.size()) {
                throw error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
            }
            auto const& item = plan.items[r.item];
            auto const it = meta_.entries.find(item.fqn);
            if (it == meta_.entries.end()) {
                throw error(errc::invalid_plan, {.rank = rank,
                                                 .fqn = item.fqn,
                                                 .found = "a result for a name without metadata"});
            }
            check_written_item(item, rank, it->second);
            if (auto* o = std::get_if<value_metadata>(&it->second)) {
                o->at = std::move(r.at);
            } else {
                auto const c = chunks_.find(item_key(item));
                if (c == chunks_.end()) {
                    throw error(errc::invalid_plan, {.rank = rank,
                                                     .fqn = item.fqn,
                                                     .found = "a result for an unplanned box " +
                                                              to_string(item.region)});
                }
                *places_[c->second] = std::move(r.at);
            }
        }
        for (auto& [name, size] : results.file_sizes) meta_.file_sizes.emplace(name, size);
    }

    /// @throws error errc::invalid_plan if no rank wrote some chunk or value.
    void check_all_placed() const {
        auto const check = [](const std::string& fqn, const storage_location& at) {
            if (at.file.empty()) {
                throw error(errc::invalid_plan, {.fqn = fqn,
                                                 .expected = "a place for every chunk",
                                                 .found = "one that no rank wrote"});
            }
        };
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry))
                for (auto const& c : t->chunks) check(fqn, c.at);
            else
                check(fqn, std::get<value_metadata>(entry).at);
        }
    }

private:
    metadata& meta_;
    map_of_items<std::size_t> chunks_{};  ///< Positions in `places_`.
    std::vector<storage_location*> places_{};
};

}  // namespace cairn::detail

#endif
