// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_CHECK_HPP
#define CAIRN_METADATA_CHECK_HPP

#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Checks what a checkpoint says of itself, before anything is read by it: chunks within bounds,
/// without overlap, covering; no byte of a file in two items, but for tied weights; paths that
/// spell their keys.
/// @throws error errc::invalid_plan or errc::corrupt naming the tensor or file.
inline void check_metadata(const metadata& m) {
    struct range {
        std::uint64_t begin, end;
        const std::string* fqn;
        const tensor_metadata* tensor;
        const box* where;
    };
    std::map<std::string_view, std::vector<range>> files;
    auto const note = [&](const std::string& fqn, const storage_location& at,
                          const tensor_metadata* tensor = nullptr, const box* where = nullptr) {
        if (at.length == 0 || at.offset + at.length < at.offset)
            throw error(errc::corrupt, {.tensor = fqn,
                                        .object = at.object,
                                        .expected = "an item of some bytes",
                                        .found = std::to_string(at.length)});
        files[at.object].push_back({at.offset, at.offset + at.length, &fqn, tensor, where});
    };
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            if (!is_possible(t->extents))
                throw error(errc::corrupt,
                            {.tensor = fqn,
                             .expected = "at most " + std::to_string(most_elements) + " elements",
                             .found = "the shape " + to_string(t->extents)});
            std::vector<box> boxes;
            for (auto const& c : t->chunks) {
                boxes.push_back(c.where);
                note(fqn, c.at, t, &c.where);
            }
            check_coverage(fqn, t->extents, boxes);
        } else {
            note(fqn, std::get<object_metadata>(entry).at);
        }
    }
    // A tied weight has two names and is stored once. PyTorch never writes that, and there no
    // checksum tells it from a wrong offset: only cairn's own metadata may say so.
    auto const tied = [&](const range& a, const range& b) {
        return !m.save_id.empty() && a.begin == b.begin && a.end == b.end && a.tensor != nullptr &&
               b.tensor != nullptr && a.tensor != b.tensor && *a.where == *b.where &&
               a.tensor->type == b.tensor->type && a.tensor->extents == b.tensor->extents;
    };
    for (auto& [name, ranges] : files) {
        std::sort(ranges.begin(), ranges.end(),
                  [](auto const& a, auto const& b) { return a.begin < b.begin; });
        for (std::size_t i = 1; i < ranges.size(); ++i)
            if (ranges[i].begin < ranges[i - 1].end && !tied(ranges[i], ranges[i - 1]))
                throw error(errc::corrupt,
                            {.tensor = *ranges[i].fqn,
                             .object = std::string(name),
                             .expected = "bytes of its own",
                             .found = "bytes that '" + *ranges[i - 1].fqn + "' claims too"});
    }
}

}  // namespace cairn

#endif
