// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_CHECK_IPP
#define CAIRN_METADATA_IMPL_CHECK_IPP

#include <cairn/metadata/check.hpp>

#include <cairn/detail/fits_in.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/detail/stored_ranges.hpp>
#include <cairn/metadata/detail/transforms.hpp>

#include <cstdint>
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
    if (!detail::is_zstd(at.transforms) &&
        !detail::fits_in(l.payload_offset, l.payload_length, at.length))
        refuse("a payload within its item of " + std::to_string(at.length) + " bytes",
               std::to_string(l.payload_length) + " bytes at " + std::to_string(l.payload_offset));
}

namespace detail {

/// Does what @ref check_layout does, for a chunk of a tensor; in a few instructions if it is not
/// unusual.
inline void check_stored_layout(const std::string& fqn, const tensor_metadata& t, std::size_t i) {
    auto const& at = t.chunks.row_of(i);
    if (!at.has_layout) return;
    auto bytes = size_of(t.type);
    for (auto const n : t.chunks.lengths(i)) bytes *= static_cast<std::uint64_t>(n);
    if (at.unusual || at.payload_length != bytes ||
        !fits_in(at.payload_offset, at.payload_length, at.length))
        check_layout(fqn, t.type, t.chunks.region(i).shape, t.chunks.location(i));
}

}  // namespace detail

CAIRN_DECL void check_metadata(const metadata& m) {
    detail::stored_ranges ranges(m);
    const tensor_metadata* covered = nullptr;  // the last one that is
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            if (!is_possible(t->shape))
                throw error(errc::corrupt,
                            {.fqn = fqn,
                             .expected = "at most " + std::to_string(most_elements) + " elements",
                             .found = "the shape " + to_string(t->shape)});
            auto const& chunks = t->chunks;
            ranges.note(fqn, *t);
            // Most tensors are split like the previous one.
            if (covered == nullptr || covered->shape != t->shape ||
                !chunks.same_boxes(covered->chunks)) {
                std::vector<box> boxes;
                boxes.reserve(chunks.size());
                for (std::size_t i = 0; i < chunks.size(); ++i) boxes.push_back(chunks.region(i));
                // A process that saved alone with PyTorch may have held only some shards.
                if (m.save_id.empty())
                    (void)check_apart(fqn, t->shape, boxes);
                else
                    check_coverage(fqn, t->shape, boxes);
                covered = t;
            }
            for (std::size_t i = 0; i < chunks.size(); ++i) detail::check_stored_layout(fqn, *t, i);
        } else {
            ranges.note(fqn, std::get<value_metadata>(entry));
        }
    }
    for (auto const& [fqn, steps] : m.paths)
        if (steps.size() > most_path_steps)
            throw error(errc::unsupported, {.fqn = fqn,
                                            .expected = "a path of at most " +
                                                        std::to_string(most_path_steps) + " steps",
                                            .found = std::to_string(steps.size())});
    ranges.check_disjoint();
}

}  // namespace cairn

#endif
