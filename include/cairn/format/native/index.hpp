// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_HPP

#include <cairn/format/crc.hpp>
#include <cairn/format/native/commit_section.hpp>
#include <cairn/format/native/index_content.hpp>
#include <cairn/format/native/index_root.hpp>
#include <cairn/format/torch/metadata_pickle.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::native {

namespace impl {

/// Returns an estimate of the size of `.metadata`, rather too large than too small.
inline std::size_t usual_bytes(const metadata& m) {
    std::size_t n = 4096;
    auto const add = [&](const foreign_metadata::pickles& some) {
        for (auto const& [name, pickle] : some) n += name.size() + pickle.size();
    };
    add(m.foreign.members);
    for (auto const& entry : m.foreign.of_entries) add(entry.second);
    for (auto const& [fqn, entry] : m.entries) {
        auto const* t = std::get_if<tensor_metadata>(&entry);
        n += 128 + 4 * fqn.size() + (t != nullptr ? 64 * t->chunks.size() : 0);
    }
    return n;
}

}  // namespace impl

/// The content of a `.metadata` file.
struct metadata_file {
    metadata meta{};
    bool has_index = false;              ///< Written by cairn.
    std::span<const std::byte> index{};  ///< Its content and heading, of the bytes parsed.
    std::size_t content_length = 0;      ///< Of the index.
    bool torch_metadata = true;          ///< PyTorch can read it too.
    std::optional<commit_record> record{};
    std::size_t pickle_bytes = 0;
};

/// Returns the stub that replaces the pickle: a pickle of a class that does not exist in Python, so
/// that PyTorch fails with "No module named '…'", which states the reason.
inline std::span<const std::byte> no_torch_metadata() {
    static constexpr std::string_view stub =
        "\x80\x02"
        "ccairn checkpoint with torch_metadata off: PyTorch cannot load it, cairn can\nMetadata\n.";
    return std::as_bytes(std::span(stub.data(), stub.size()));
}

/// Returns the bytes of `.metadata`: PyTorch's pickle, then, where PyTorch does not look, the
/// commit record, if there is one, and the native index.
/// @param torch_metadata  False: instead of the pickle, a stub that PyTorch refuses.
/// @param record          May be null.
/// @throws error errc::invalid_state for metadata that no reader would accept
inline std::vector<std::byte> make_metadata_file(const metadata& m, bool torch_metadata = true,
                                                 const commit_record* record = nullptr) {
    auto const stub = no_torch_metadata();
    auto out = torch_metadata ? torch::write_metadata_pickle(m, impl::usual_bytes(m))
                              : std::vector<std::byte>(stub.begin(), stub.end());
    if (record != nullptr) append_commit_section(out, *record);
    std::uint64_t content = 0;
    out = append_index(std::move(out), m, &content);
    unfolding::check(m, content);
    return out;
}

/// Reads `.metadata`: from the native index if cairn wrote one, after checking its CRCs and the
/// pickle's; otherwise from the pickle. Anything after the pickle that is not a valid index is an
/// error, so that a file with a damaged index is never mistaken for one of PyTorch's.
/// @throws error errc::corrupt, errc::checksum_mismatch, errc::unsupported.
inline metadata_file parse_metadata_file(std::span<const std::byte> bytes) {
    metadata_file f;
    std::size_t length = 0;
    if (auto const tail = find_index(bytes, bytes.size())) {
        length = static_cast<std::size_t>(tail->index_length);
        auto const index = bytes.last(length);
        auto const content = index.first(static_cast<std::size_t>(tail->content_length));
        auto const root = decode_root(*tail, index.subspan(content.size()));
        if (tail->before_crc != crc32(bytes.first(bytes.size() - length)))
            throw damaged_index("a pickle with another checksum");
        root.check_content(content);
        f.meta = impl::content_decoder(content, root.heading).run();
        f.content_length = content.size();
        f.index = index.first(content.size() + static_cast<std::size_t>(tail->heading_length));
    } else {
        f.meta = torch::parse_metadata_pickle(bytes, &f.pickle_bytes);
        if (f.pickle_bytes != bytes.size()) throw damaged_index("other bytes after the pickle");
        return f;
    }
    f.has_index = true;
    auto pickle = bytes.first(bytes.size() - length);
    if (auto const n = commit_section_length(pickle); n != 0) {
        f.record = decode_commit_section(pickle.last(n));
        pickle = pickle.first(pickle.size() - n);
    }
    f.torch_metadata = !std::ranges::equal(pickle, no_torch_metadata());
    f.pickle_bytes = pickle.size();
    if (f.torch_metadata && torch::metadata_writer::has_foreign(pickle)) {
        auto m = torch::parse_metadata_pickle(pickle);
        f.meta.unknown_members = std::move(m.unknown_members);
        f.meta.foreign = std::move(m.foreign);
    }
    return f;
}

/// Checks that the pickle, which PyTorch reads, and the index, which cairn reads, agree.
/// @throws error errc::corrupt naming what differs.
inline void check_pickle_agrees(std::span<const std::byte> bytes) {
    auto const f = parse_metadata_file(bytes);
    if (!f.has_index || !f.torch_metadata) return;
    auto const pickle = torch::parse_metadata_pickle(bytes);
    auto stripped = f.meta;
    stripped.save_id.clear();
    stripped.file_sizes.clear();
    for (auto& [fqn, entry] : stripped.entries) {
        if (auto* t = std::get_if<tensor_metadata>(&entry))
            t->chunks.edit_each([](chunk& c) { c.at.layout.reset(); });
        else
            std::get<value_metadata>(entry).at.layout.reset();
        auto const it = pickle.entries.find(fqn);
        if (it == pickle.entries.end() || it->second != entry)
            throw error(errc::corrupt, {.fqn = fqn,
                                        .expected = "the same entry in the pickle and the index",
                                        .found = "different entries"});
    }
    if (stripped.entries.size() != pickle.entries.size() || stripped.paths != pickle.paths)
        throw error(errc::corrupt,
                    {.expected = "the same keys and paths in the pickle and the index",
                     .found = "different keys or paths"});
}

}  // namespace cairn::format::native

#endif
