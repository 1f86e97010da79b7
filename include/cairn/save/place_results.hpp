// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_PLACE_RESULTS_HPP
#define CAIRN_SAVE_PLACE_RESULTS_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/item_numbers.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/plan_table.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Fills the locations that ranks wrote to into the metadata of a save, matched by name and box.
///
/// Chunks are in the order of their ranks: a rank's box is first compared with the chunk after the
/// last one that was placed, and looked up only if that is another.
class result_placer {
public:
    /// @param m  Must outlive this; entries must not be added or removed.
    explicit result_placer(metadata& m) : meta_(m) {
        for (auto& [fqn, entry] : meta_.entries) {
            names_.add(fqn);
            places_.push_back({&entry});
        }
    }

    void place(const save_plan& plan, write_results results, int rank) {
        for (auto& r : results.items) {
            if (r.item >= plan.items.size()) {
                throw error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
            }
            auto const& item = plan.items[r.item];
            auto const name = names_.find(item.fqn);
            if (!name) {
                throw error(errc::invalid_plan, {.rank = rank,
                                                 .fqn = item.fqn,
                                                 .found = "a result for a name without metadata"});
            }
            auto& p = places_[*name];
            check_written_item(item, rank, *p.entry);
            if (auto* o = std::get_if<value_metadata>(p.entry)) {
                o->at = std::move(r.at);
            } else {
                auto const c = p.find(item.region);
                if (!c) {
                    throw error(errc::invalid_plan, {.rank = rank,
                                                     .fqn = item.fqn,
                                                     .found = "a result for an unplanned box " +
                                                              to_string(item.region)});
                }
                std::get<tensor_metadata>(*p.entry).chunks.locate(*c, r.at, files_);
            }
        }
        add_files(results);
    }

    /// @throws error errc::invalid_plan if no rank wrote some chunk or value.
    void check_all_placed() const {
        auto const check = [](const std::string& fqn, bool placed) {
            if (!placed) {
                throw error(errc::invalid_plan, {.fqn = fqn,
                                                 .expected = "a place for every chunk",
                                                 .found = "one that no rank wrote"});
            }
        };
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry))
                for (std::size_t i = 0; i < t->chunks.size(); ++i)
                    check(fqn, !t->chunks.file(i).empty());
            else
                check(fqn, !std::get<value_metadata>(entry).at.file.empty());
        }
    }

    /// The results of a rank that has carried out its plan.
    /// @param t  Of which the metadata was made; the same in each call.
    void place(const plan_table& t, write_results results, int rank) {
        if (table_entries_.empty())
            for (std::uint32_t n = 0; n < t.names(); ++n)
                table_entries_.push_back(places_[names_.find(t.name_of(n)).value()].entry);
        auto const places = t.places(static_cast<std::size_t>(rank));
        for (auto& r : results.items) {
            if (r.item >= places.size())
                throw error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
            auto const at = places[r.item];
            auto* const entry = table_entries_[at.name];
            if (auto* o = std::get_if<value_metadata>(entry))
                o->at = std::move(r.at);
            else
                std::get<tensor_metadata>(*entry).chunks.locate(at.chunk, r.at, files_);
        }
        add_files(results);
    }

private:
    void add_files(write_results& results) {
        for (auto& [name, size] : results.file_sizes) meta_.file_sizes.emplace(name, size);
    }
    struct entry_places {
        std::variant<tensor_metadata, value_metadata>* entry;
        std::size_t next = 0;      ///< Chunk.
        std::vector<box> boxes{};  ///< Made, and numbered, when one is not the next.
        item_numbers numbers{};

        /// Returns the position of a chunk, if there is one.
        std::optional<std::size_t> find(const box& region) {
            auto const& chunks = std::get<tensor_metadata>(*entry).chunks;
            if (next == chunks.size() || !(chunks.region(next) == region)) {
                if (boxes.empty()) {
                    boxes.reserve(chunks.size());
                    for (std::size_t i = 0; i < chunks.size(); ++i)
                        numbers.add(0, boxes.emplace_back(chunks.region(i)));
                }
                auto const at = numbers.find(0, region);
                if (!at) return {};
                next = *at;
            }
            return next++;
        }
    };

    metadata& meta_;
    chunk_list::names_ptr files_ = std::make_shared<file_names>();
    name_numbers names_{};
    std::vector<entry_places> places_{};  ///< By name.
    std::vector<std::variant<tensor_metadata, value_metadata>*> table_entries_{};
};

}  // namespace cairn::detail

#endif
