// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_VERIFY_IPP
#define CAIRN_CATALOG_IMPL_VERIFY_IPP

#include <cairn/catalog/verify.hpp>

#include <cairn/catalog/detail/verification.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/source_pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Reads a checkpoint of a format that has no rules but its readers': all of it, as a load does.
/// @throws error as `checkpoint_reader::read_metadata`, except for damage, which is a finding
inline verify_report verify_by_reading(const any_store& place, const checkpoint_id& id,
                                       const std::function<void(std::uint64_t bytes)>& progress) {
    verify_report r;
    auto const note = [&](const error& e, const std::string& fqn) {
        r.damaged = r.damaged || is_damage(e.code());
        r.findings.emplace_back(completed(e, {.fqn = fqn}).what());
    };
    auto const advance = [&](std::uint64_t bytes) {
        r.bytes += bytes;
        if (progress) progress(r.bytes);
    };
    std::optional<source_pieces> source;
    try {
        source.emplace(place, id);
    } catch (const error& e) {
        if (!is_damage(e.code())) throw;
        note(e, {});
        return r;
    }
    auto const& m = source->meta();
    r.files = m.file_sizes.size();
    std::vector<std::byte> bytes(std::size_t{4} << 20);
    std::vector<std::string> repeated;
    for (auto const& [fqn, entry] : m.entries) try {
            auto const* t = std::get_if<tensor_metadata>(&entry);
            r.items += t == nullptr ? 1 : t->chunks.size();
            if (t == nullptr) {
                (void)source->read_value(fqn);
                advance(std::get<value_metadata>(entry).at.length);
                continue;
            }
            if (auto const what = repetition(m, *t); !what.empty()) {
                // To read them all may take years; one takes all that has a checksum.
                box const one(index_vector(t->shape.size(), 0), index_vector(t->shape.size(), 1));
                source->read(fqn, one, t->type, 0, std::span(bytes).first(size_of(t->type)));
                advance(size_of(t->type));
                repeated.push_back("'" + terminal_text(fqn) + "': " + what +
                                   ", of which one element was read");
                continue;
            }
            auto const total = static_cast<std::uint64_t>(t->shape.product()) * size_of(t->type);
            for (std::uint64_t at = 0; at < total; at += bytes.size()) {
                auto const n = std::min<std::uint64_t>(bytes.size(), total - at);
                source->read(fqn, box::whole(t->shape), t->type, at,
                             std::span(bytes).first(static_cast<std::size_t>(n)));
                advance(n);
            }
        } catch (const error& e) {
            note(e, fqn);
            // No tensor of a file that was replaced can be read.
            if (e.code() == make_error_code(errc::concurrent_save)) break;
        }
    r.unverified = source->unverified();
    r.unverified.insert(r.unverified.end(), repeated.begin(), repeated.end());
    return r;
}

CAIRN_DECL verify_report verify(any_store place,
                                const std::function<void(std::uint64_t bytes)>& progress,
                                std::string metadata_file) {
    if (format_by_name(metadata_file)) return verify_by_reading(place, metadata_file, progress);
    if (metadata_file.find(metadata_name) == metadata_file.npos)
        throw error(errc::unsupported,
                    {.file = place.describe(metadata_file),
                     .expected = "a directory, or a file .safetensors, .pt, .pth, .bin, .ckpt or "
                                 "__R.metadata",
                     .found = "a file of another name"});
    if (metadata_file == metadata_name && !exists(place, metadata_name))
        return verify_by_reading(place, {}, progress);
    verification v(std::move(place),
                   {.metadata_file = std::move(metadata_file), .progress = progress});
    v.run();
    return {v.findings(), v.damaged(), v.not_checked(), v.torch_metadata(),
            v.files(),    v.items(),   v.bytes()};
}

}  // namespace cairn::detail

#endif
