// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_STORED_RANGES_HPP
#define CAIRN_METADATA_DETAIL_STORED_RANGES_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/detail/name_numbers.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/detail/file_numbers.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Checks the byte ranges of all stored items of a checkpoint: each lies within its file, none is
/// shared.
class stored_ranges {
public:
    /// @param m  The metadata whose items are noted, in any order; must outlive this.
    explicit stored_ranges(const metadata& m) : meta_(m) {
        for (auto const& [name, size] : m.file_sizes) files_[number_of(name)].size = size;
        std::size_t all = 0;
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<tensor_metadata>(&entry);
            all += t != nullptr ? t->chunks.size() : 1;
        }
        if (all >= UINT32_MAX)
            throw error(errc::unsupported,
                        {.expected = "fewer than 2^32 stored items", .found = std::to_string(all)});
        items_.reserve(all);
        owners_.reserve(m.entries.size());
    }

    /// @throws error errc::corrupt for an item that is empty or leaves its file
    void note(const std::string& fqn, const tensor_metadata& t) {
        auto const number = [this](std::string_view name) { return number_of(name); };
        owners_.push_back({&fqn, &t});
        for (std::size_t i = 0; i < t.chunks.size(); ++i) {
            auto const& at = t.chunks.row_of(i);
            note(numbers_.of(t.chunks, i, number), at.offset, at.length, i);
        }
    }
    void note(const std::string& fqn, const value_metadata& v) {
        owners_.push_back({&fqn, nullptr});
        note(number_of(v.at.file), v.at.offset, v.at.length, 0);
    }

    /// @throws error errc::corrupt for two items that share bytes and are not a tied weight
    void check_disjoint() const {
        std::vector<std::uint32_t> next;  // in `order`, by file
        std::uint32_t begin = 0;
        for (auto const& f : files_) {
            next.push_back(begin);
            begin += f.items;
        }
        std::vector<std::uint32_t> order(items_.size());
        for (std::uint32_t i = 0; i < items_.size(); ++i) order[next[items_[i].file]++] = i;
        begin = 0;
        std::vector<std::uint32_t> sorted;  // positions among the items of the last file
        for (auto const end : next) {
            check_file(std::span(order).subspan(begin, end - begin), sorted);
            begin = end;
        }
    }

private:
    struct item {
        std::uint64_t begin, end;
        std::uint32_t file, owner, chunk;
    };
    struct owner {
        const std::string* fqn;
        const tensor_metadata* tensor;  ///< Null: a value.
    };
    struct file {
        std::uint64_t size = UINT64_MAX;  ///< Where known.
        std::uint32_t items = 0;
    };

    std::uint32_t number_of(std::string_view name) {
        auto const n = names_.add(name);
        if (n == files_.size()) files_.emplace_back();
        return n;
    }
    void note(std::uint32_t n, std::uint64_t offset, std::uint64_t length, std::size_t chunk) {
        auto& f = files_[n];
        auto const refuse = [&](std::string expected, std::string found) {
            throw error(errc::corrupt, {.fqn = *owners_.back().fqn,
                                        .file = std::string(names_.names()[n]),
                                        .expected = std::move(expected),
                                        .found = std::move(found)});
        };
        if (length == 0 || length > UINT64_MAX - offset)
            refuse("a non-empty item", std::to_string(length));
        if (!fits_in(offset, length, f.size))
            refuse("an item within the file's " + std::to_string(f.size) + " bytes",
                   std::to_string(length) + " bytes at " + std::to_string(offset));
        ++f.items;
        items_.push_back({offset, offset + length, n,
                          static_cast<std::uint32_t>(owners_.size() - 1),
                          static_cast<std::uint32_t>(chunk)});
    }
    /// @param of      The items of the file.
    /// @param sorted  The sorted positions of the items of the previous file: ranks write their
    ///                shards of all tensors in the same order.
    void check_file(std::span<const std::uint32_t> of, std::vector<std::uint32_t>& sorted) const {
        // Of equal ranges, those of one tensor are neighbours: they are not tied.
        auto const before = [&](std::uint32_t a, std::uint32_t b) {
            auto const &x = items_[of[a]], &y = items_[of[b]];
            return x.begin != y.begin ? x.begin < y.begin : x.owner < y.owner;
        };
        if (sorted.size() != of.size()) {
            sorted.resize(of.size());
            std::iota(sorted.begin(), sorted.end(), 0u);
        }
        if (!std::is_sorted(sorted.begin(), sorted.end(), before))
            std::sort(sorted.begin(), sorted.end(), before);
        for (std::size_t i = 1; i < of.size(); ++i) {
            auto const &last = items_[of[sorted[i - 1]]], &now = items_[of[sorted[i]]];
            if (now.begin >= last.end || are_tied(now, last)) continue;
            throw error(errc::corrupt,
                        {.fqn = *owners_[now.owner].fqn,
                         .file = std::string(names_.names()[now.file]),
                         .expected = "bytes of its own",
                         .found = "bytes that '" + *owners_[last.owner].fqn + "' claims too"});
        }
    }
    /// A tied weight has two names and is stored once. PyTorch never writes that, and in its files
    /// no checksum would reveal a wrong offset: this is accepted only from cairn's own metadata.
    bool are_tied(const item& x, const item& y) const {
        auto const *a = owners_[x.owner].tensor, *b = owners_[y.owner].tensor;
        return !meta_.save_id.empty() && a != nullptr && b != nullptr && a != b &&
               a->type == b->type && a->shape == b->shape &&
               a->chunks[x.chunk] == b->chunks[y.chunk];
    }

    const metadata& meta_;
    name_numbers names_{};
    file_numbers numbers_{};
    std::vector<file> files_{};  ///< By the numbers of their names.
    std::vector<owner> owners_{};
    std::vector<item> items_{};
};

}  // namespace cairn::detail

#endif
