// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_CHECK_IPP
#define CAIRN_METADATA_IMPL_CHECK_IPP

#include <cairn/metadata/check.hpp>

#include <cairn/detail/fits_in.hpp>
#include <cairn/detail/name_numbers.hpp>
#include <cairn/metadata/coverage.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

CAIRN_DECL void check_layout(const std::string& fqn, dtype type, const index_vector& lengths,
                             const storage_location& at) {
    auto const& l = *at.layout;
    auto const refuse = [&](std::string expected, std::string found) {
        throw error(errc::corrupt, {.fqn = fqn,
                                    .file = at.file,
                                    .expected = std::move(expected),
                                    .found = std::move(found)});
    };
    if (!is_possible(lengths)) refuse("the shape of a tensor", to_string(lengths));
    if (l.strides.size() != lengths.size() ||
        (l.strides != row_major_strides(lengths) &&
         !is_dense(const_tensor_view(type, lengths, l.strides, nullptr))))
        refuse("the strides of a dense tensor of shape " + to_string(lengths),
               to_string(l.strides));
    auto const bytes = static_cast<std::uint64_t>(lengths.product()) * size_of(type);
    if (l.payload_length != bytes)
        refuse("a payload of " + std::to_string(bytes) + " bytes for shape " + to_string(lengths) +
                   " of " + std::string(name_of(type)),
               std::to_string(l.payload_length));
    if (!detail::fits_in(l.payload_offset, l.payload_length, at.length))
        refuse("a payload within its item of " + std::to_string(at.length) + " bytes",
               std::to_string(l.payload_length) + " bytes at " + std::to_string(l.payload_offset));
}

CAIRN_DECL void check_metadata(const metadata& m) {
    struct range {
        std::uint64_t begin, end;
        const std::string* fqn;
        const storage_location* at;
        const tensor_metadata* tensor;
        const box* region;
    };
    struct file {
        std::vector<range> items{};
        std::uint64_t size = UINT64_MAX;  ///< Where known.
    };
    detail::name_numbers names;
    std::vector<file> files;
    auto const file_named = [&](std::string_view name) -> file& {
        auto const n = names.add(name);
        if (n == files.size()) files.emplace_back();
        return files[n];
    };
    for (auto const& [name, size] : m.file_sizes) file_named(name).size = size;
    auto const note = [&](const std::string& fqn, const storage_location& at,
                          const tensor_metadata* tensor = nullptr, const box* region = nullptr) {
        if (at.length == 0 || at.length > UINT64_MAX - at.offset)
            throw error(errc::corrupt, {.fqn = fqn,
                                        .file = at.file,
                                        .expected = "a non-empty item",
                                        .found = std::to_string(at.length)});
        auto& f = file_named(at.file);
        if (!detail::fits_in(at.offset, at.length, f.size))
            throw error(
                errc::corrupt,
                {.fqn = fqn,
                 .file = at.file,
                 .expected = "an item within the file's " + std::to_string(f.size) + " bytes",
                 .found = std::to_string(at.length) + " bytes at " + std::to_string(at.offset)});
        f.items.push_back({at.offset, at.offset + at.length, &fqn, &at, tensor, region});
    };
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            if (!is_possible(t->shape))
                throw error(errc::corrupt,
                            {.fqn = fqn,
                             .expected = "at most " + std::to_string(most_elements) + " elements",
                             .found = "the shape " + to_string(t->shape)});
            std::vector<box> boxes;
            boxes.reserve(t->chunks.size());
            for (auto const& c : t->chunks) {
                boxes.push_back(c.region);
                note(fqn, c.at, t, &c.region);
            }
            check_coverage(fqn, t->shape, boxes);
            for (auto const& c : t->chunks)
                if (c.at.layout) check_layout(fqn, t->type, c.region.shape, c.at);
        } else {
            note(fqn, std::get<value_metadata>(entry).at);
        }
    }
    for (auto const& [fqn, steps] : m.paths)
        if (steps.size() > most_path_steps)
            throw error(errc::corrupt, {.fqn = fqn,
                                        .expected = "a path of at most " +
                                                    std::to_string(most_path_steps) + " steps",
                                        .found = std::to_string(steps.size())});
    // A tied weight has two names and is stored once. PyTorch never writes that, and in its files
    // no checksum would reveal a wrong offset: this is accepted only from cairn's own metadata.
    auto const tied = [&](const range& a, const range& b) {
        return !m.save_id.empty() && a.tensor != nullptr && b.tensor != nullptr &&
               a.tensor != b.tensor && *a.at == *b.at && *a.region == *b.region &&
               a.tensor->type == b.tensor->type && a.tensor->shape == b.tensor->shape;
    };
    for (std::size_t n = 0; n < files.size(); ++n) {
        auto& ranges = files[n].items;
        // Of equal ranges, those of one tensor are neighbours: they are not tied.
        std::sort(ranges.begin(), ranges.end(), [](auto const& a, auto const& b) {
            return a.begin != b.begin ? a.begin < b.begin : std::less<>()(a.tensor, b.tensor);
        });
        for (std::size_t i = 1; i < ranges.size(); ++i)
            if (ranges[i].begin < ranges[i - 1].end && !tied(ranges[i], ranges[i - 1]))
                throw error(errc::corrupt,
                            {.fqn = *ranges[i].fqn,
                             .file = std::string(names.names()[n]),
                             .expected = "bytes of its own",
                             .found = "bytes that '" + *ranges[i - 1].fqn + "' claims too"});
    }
}

}  // namespace cairn

#endif
