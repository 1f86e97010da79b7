// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_PLACE_RESULTS_HPP
#define CAIRN_SAVE_DETAIL_PLACE_RESULTS_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/results_codec.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Enters the locations that ranks wrote to into the metadata of a save, matched by name and box.
///
/// Chunks are in the order of their ranks: a rank's box is first compared with the chunk after the
/// last one that was placed, and looked up only if that is another.
class result_placer {
public:
    /// @param m  Must outlive this; entries must not be added or removed.
    explicit result_placer(metadata& m) : meta_(m) {
        for (auto& [fqn, entry] : meta_.entries) {
            names_.add(fqn);
            auto& c = columns_.emplace_back(column{&entry, std::get_if<tensor_metadata>(&entry)});
            if (c.tensor == nullptr) continue;
            c.tensor->chunks.number_files_in(files_);
            c.cells = c.tensor->chunks.usual_cells();
        }
    }

    /// @param results  Of a rank that has carried out this plan, encoded.
    void place(const save_plan& plan, std::span<const std::byte> results, int rank) {
        place_each(results, rank, plan.items.size(),
                   [&](std::uint32_t n) { return find(plan.items[n], rank); });
    }
    /// @param t        The table that the metadata was made of; the same in each call.
    /// @param results  Of a rank that has carried out its part of it, encoded.
    void place(const plan_table& t, std::span<const std::byte> results, int rank) {
        if (column_of_.empty())
            for (std::uint32_t n = 0; n < t.names(); ++n)
                column_of_.push_back(names_.find(t.name_of(n)).value());
        auto const places = t.places(static_cast<std::size_t>(rank));
        place_each(results, rank, places.size(), [&](std::uint32_t n) {
            if (places.size() - n > ahead) {
                auto const& soon = places[n + ahead];
                if (auto const& cells = columns_[column_of_[soon.name]].cells)
                    cells->prefetch(soon.chunk);
            }
            return std::pair(&columns_[column_of_[places[n].name]], places[n].chunk);
        });
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

    /// Returns the warnings of all ranks' writers, each once.
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
    /// A tensor or a value.
    struct column {
        metadata_entry* entry;
        tensor_metadata* tensor;                   ///< Null: a value.
        std::optional<chunk_list::cells> cells{};  ///< None: a chunk is unusual.
        std::uint32_t next = 0;                    ///< Chunk.
        /// By offsets and lengths; made when a chunk is not the next.
        std::map<std::pair<index_vector, index_vector>, std::uint32_t> numbers{};

        /// Returns the position of a chunk, if there is one.
        std::optional<std::uint32_t> find(const box& region) {
            auto const& chunks = tensor->chunks;
            if (next == chunks.size() || !(chunks.region(next) == region)) {
                if (numbers.empty())
                    for (std::uint32_t i = 0; i < chunks.size(); ++i) {
                        auto b = chunks.region(i);
                        numbers.try_emplace({std::move(b.offsets), std::move(b.shape)}, i);
                    }
                auto const at = numbers.find({region.offsets, region.shape});
                if (at == numbers.end()) return {};
                next = at->second;
            }
            return next++;
        }
    };
    /// Results come in the order of items, about.
    static constexpr std::size_t ahead = 16;

    /// @param items     How many the rank has carried out.
    /// @param place_of  Returns the column and the chunk of the n-th of them.
    template <class F>
    void place_each(std::span<const std::byte> results, int rank, std::size_t items, F&& place_of) {
        results_reader r(results);
        std::vector<std::uint32_t> numbers;  // of the rank's files
        for (auto const& f : r.files())
            numbers.push_back(f.empty() ? chunk_list::row::no_file : files_->add(f));
        while (r.left() != 0) {
            auto const n = r.next_item();
            if (n >= items)
                throw error(errc::invalid_plan, {.rank = rank, .found = "a result for no item"});
            auto const [c, chunk] = place_of(n);
            auto const file = r.next_file();
            if (c->tensor == nullptr)
                std::get<value_metadata>(*c->entry).at =
                    get_within_file(r.location(), r.files()[file]);
            else
                locate(*c, chunk, r, file, numbers[file]);
        }
        for (auto& [name, size] : r.file_sizes()) meta_.file_sizes.emplace(name, size);
        for (auto& w : r.warnings())
            ++said_.try_emplace(std::move(w), said{rank}).first->second.ranks;
    }
    /// Returns where the location of an item of a plan belongs.
    std::pair<column*, std::uint32_t> find(const write_item& item, int rank) {
        auto const refuse = [&](std::string found) {
            return error(errc::invalid_plan,
                         {.rank = rank, .fqn = item.fqn, .found = std::move(found)});
        };
        auto const name = names_.find(item.fqn);
        if (!name) throw refuse("a result for a name without metadata");
        auto& c = columns_[*name];
        check_written_item(item, rank, *c.entry);
        if (c.tensor == nullptr) return {&c, 0};
        auto const chunk = c.find(item.region);
        if (!chunk) throw refuse("a result for an unplanned box " + to_string(item.region));
        return {&c, *chunk};
    }
    static void locate(const column& c, std::size_t i, results_reader& r, std::size_t file,
                       std::uint32_t number) {
        std::optional<storage_location> other;
        if (c.cells && !c.cells->rows[i].unusual) {
            chunk_list::row at;
            at.file = number;
            other = get_within_file(r.location(), at, c.cells->lengths(i));
            if (!other) {
                c.cells->rows[i] = at;
                return;
            }
            other->file = r.files()[file];
        } else {
            other = get_within_file(r.location(), r.files()[file]);
        }
        c.tensor->chunks.locate(i, *other, number);
    }

    metadata& meta_;
    std::map<std::string, said> said_{};  ///< By text.
    chunk_list::names_ptr files_ = std::make_shared<file_names>();
    name_numbers names_{};
    std::vector<column> columns_{};           ///< By name.
    std::vector<std::uint32_t> column_of_{};  ///< By name of the plan table.
};

}  // namespace cairn::detail

#endif
