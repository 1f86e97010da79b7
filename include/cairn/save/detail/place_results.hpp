// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_PLACE_RESULTS_HPP
#define CAIRN_SAVE_DETAIL_PLACE_RESULTS_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/detail/item_numbers.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/results_codec.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

    /// @param results  Of a rank that has carried out this plan, encoded.
    void place(const save_plan& plan, std::span<const std::byte> results, int rank) {
        results_reader r(results);
        file_numbers files(*files_, r);
        while (r.left() != 0) {
            auto const n = r.next_item();
            if (n >= plan.items.size()) throw no_item(rank);
            auto const& item = plan.items[n];
            auto const name = names_.find(item.fqn);
            if (!name) {
                throw error(errc::invalid_plan, {.rank = rank,
                                                 .fqn = item.fqn,
                                                 .found = "a result for a name without metadata"});
            }
            auto& p = places_[*name];
            check_written_item(item, rank, *p.entry);
            auto const file = r.next_file();
            if (std::get_if<value_metadata>(p.entry) != nullptr) {
                set_value(*p.entry, r, file);
                continue;
            }
            auto const c = p.find(item.region);
            if (!c) {
                throw error(errc::invalid_plan,
                            {.rank = rank,
                             .fqn = item.fqn,
                             .found = "a result for an unplanned box " + to_string(item.region)});
            }
            auto& chunks = std::get<tensor_metadata>(*p.entry).chunks;
            chunks.number_files_in(files_);
            locate(chunks, chunks.usual_cells(), *c, r, file, files[file]);
        }
        add_rest(r, rank);
    }

    /// @param t        Of which the metadata was made; the same in each call.
    /// @param results  Of a rank that has carried out its part of it, encoded.
    void place(const plan_table& t, std::span<const std::byte> results, int rank) {
        if (columns_.empty()) make_columns(t);
        auto const places = t.places(static_cast<std::size_t>(rank));
        results_reader r(results);
        file_numbers files(*files_, r);
        while (r.left() != 0) {
            auto const n = r.next_item();
            if (n >= places.size()) throw no_item(rank);
            if (places.size() - n > ahead) {
                auto const& soon = places[n + ahead];
                if (auto const& cells = columns_[soon.name].cells) cells->prefetch(soon.chunk);
            }
            auto const& c = columns_[places[n].name];
            auto const file = r.next_file();
            if (c.is_value)
                set_value(*c.entry, r, file);
            else
                locate(std::get<tensor_metadata>(*c.entry).chunks, c.cells, places[n].chunk, r,
                       file, files[file]);
        }
        add_rest(r, rank);
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

    /// What writers of ranks have met that is no failure, each once.
    std::vector<std::string> warnings() const {
        std::vector<std::string> all;
        for (auto const& [text, by] : said_) {
            auto const more = by.ranks == 1 ? "" : " and " + std::to_string(by.ranks - 1) + " more";
            all.push_back("rank " + std::to_string(by.first) + more + ": " + text);
        }
        return all;
    }

private:
    struct said {
        int first;      ///< Rank.
        int ranks = 0;  ///< How many.
    };
    using metadata_entry = std::variant<tensor_metadata, value_metadata>;
    /// A tensor or a value of a plan table.
    struct column {
        metadata_entry* entry;
        bool is_value;
        std::optional<chunk_list::cells> cells{};  ///< None: a chunk is unusual.
    };
    /// Results come in the order of items, about.
    static constexpr std::size_t ahead = 16;

    /// The numbers of one rank's files, each given when the first chunk is in it.
    class file_numbers {
    public:
        file_numbers(file_names& names, const results_reader& r)
            : names_(names), files_(r.files()), numbers_(files_.size(), chunk_list::row::no_file) {}
        std::uint32_t operator[](std::size_t file) {
            auto& n = numbers_[file];
            if (n == chunk_list::row::no_file && !files_[file].empty())
                n = names_.add(files_[file]);
            return n;
        }

    private:
        file_names& names_;
        const std::vector<std::string>& files_;
        std::vector<std::uint32_t> numbers_;
    };

    static error no_item(int rank) {
        return error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
    }
    void make_columns(const plan_table& t) {
        for (std::uint32_t n = 0; n < t.names(); ++n) {
            auto* const entry = places_[names_.find(t.name_of(n)).value()].entry;
            auto* const tensor = std::get_if<tensor_metadata>(entry);
            auto& c = columns_.emplace_back(column{entry, tensor == nullptr});
            if (tensor == nullptr) continue;
            tensor->chunks.number_files_in(files_);
            c.cells = tensor->chunks.usual_cells();
        }
    }
    static void set_value(metadata_entry& to, results_reader& r, std::size_t file) {
        std::get<value_metadata>(to).at = get_within_file(r.location(), r.files()[file]);
    }
    /// @param cells  Of these chunks, if none was unusual.
    static void locate(chunk_list& chunks, const std::optional<chunk_list::cells>& cells,
                       std::size_t i, results_reader& r, std::size_t file, std::uint32_t number) {
        std::optional<storage_location> other;
        if (cells && !cells->rows[i].unusual) {
            chunk_list::row at;
            at.file = number;
            other = get_within_file(r.location(), at, cells->lengths(i));
            if (!other) {
                cells->rows[i] = at;
                return;
            }
            other->file = r.files()[file];
        } else {
            other = get_within_file(r.location(), r.files()[file]);
        }
        chunks.locate(i, *other, number);
    }
    void add_rest(results_reader& r, int rank) {
        for (auto& [name, size] : r.file_sizes()) meta_.file_sizes.emplace(name, size);
        for (auto& w : r.warnings())
            ++said_.try_emplace(std::move(w), said{rank}).first->second.ranks;
    }

    struct entry_places {
        metadata_entry* entry;
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
    std::map<std::string, said> said_{};  ///< By text.
    chunk_list::names_ptr files_ = std::make_shared<file_names>();
    name_numbers names_{};
    std::vector<entry_places> places_{};  ///< By name.
    std::vector<column> columns_{};       ///< By name of the plan table.
};

}  // namespace cairn::detail

#endif
