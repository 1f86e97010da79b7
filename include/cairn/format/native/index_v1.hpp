// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_V1_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_V1_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/index_magic.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/codec.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::format::native {

namespace impl {

using cairn::detail::get_entries;
using cairn::detail::wire_reader;

/// Reads what cairn wrote before its first release: chunks of any length, one after the other.
class decoder_v1 {
public:
    explicit decoder_v1(std::span<const std::byte> b) : r_(b), unfolding_(b.size()) {}

    metadata run() {
        if (r_.u8() != 1) wire_reader::fail("an index of an unknown version");
        metadata m;
        m.save_id = r_.string();
        // A name may be there twice: a number is a position.
        for (auto const& name : get_strings(r_)) numbers_.push_back(names_->add(name));
        m.file_sizes = get_file_sizes(r_);
        get_entries(
            r_, m, [&](const std::string& fqn) { return value_metadata{location(fqn)}; },
            [&](const std::string& fqn, bool grad) { return tensor(fqn, grad); });
        return m;
    }

private:
    tensor_metadata tensor(const std::string& fqn, bool requires_grad) {
        tensor_metadata t;
        t.requires_grad = requires_grad;
        t.type = get_dtype(r_);
        t.shape = get_shape(r_);
        auto const rank = t.shape.size();
        auto const chunks = r_.count(2 * rank + 4);
        t.chunks = chunk_list(names_, rank);
        t.chunks.reserve(chunks);
        for (std::size_t i = 0; i < chunks; ++i) {
            auto const blank = t.chunks.add();
            get_chunk_numbers(r_, blank.offsets);
            get_chunk_numbers(r_, blank.lengths);
            blank.at.file = file_of(fqn);
            auto unusual = get_within_file(r_, blank.at, blank.lengths);
            if (!unusual) continue;
            unusual->file = t.chunks.file(i);
            t.chunks.set(i, {{blank.offsets, blank.lengths}, *unusual}, blank.at.file);
        }
        return t;
    }
    std::uint32_t file_of(const std::string& fqn) {
        auto const n = r_.varint();
        if (n >= numbers_.size()) wire_reader::fail("an unknown file number");
        auto const file = numbers_[static_cast<std::size_t>(n)];
        unfolding_.spend(fqn.size() + (*names_)[file].size());
        return file;
    }
    storage_location location(const std::string& fqn) {
        auto const file = file_of(fqn);
        return get_within_file(r_, (*names_)[file]);
    }

    wire_reader r_;
    chunk_list::names_ptr names_ = std::make_shared<file_names>();
    std::vector<std::uint32_t> numbers_;  ///< Of the names, by their positions.
    unfolding unfolding_;
};

}  // namespace impl

/// Length of the index of version 1 that a file ends in.
/// @return Nothing if there is none.
/// @throws error errc::checksum_mismatch if it would be longer than the file
inline std::optional<std::size_t> find_index_v1(std::span<const std::byte> file) {
    if (file.size() < 40 || !ends_in(file, index_magic_v1)) return {};
    auto const length = cairn::detail::wire_reader(file.last(16)).u64();
    if (length < 40 || length > file.size()) throw damaged_index("an impossible length");
    return static_cast<std::size_t>(length);
}

/// Decodes an index of version 1:
///
///     index magic · length of the body u64 · body · CRC-32 of all before the index · CRC-32 of the
///     index up to here · length of the index u64 · index magic
///
/// @param before  All that precedes it in the file.
inline metadata decode_index_v1(std::span<const std::byte> index,
                                std::span<const std::byte> before) {
    using cairn::detail::wire_reader;
    if (!ends_in(index.first(8), index_magic_v1)) throw damaged_index("no magic at its start");
    if (wire_reader(index.last(20)).u32() != crc32(index.first(index.size() - 20)))
        throw damaged_index("other bytes");
    wire_reader r(index.subspan(8));
    auto const body = r.raw(static_cast<std::size_t>(r.u64()));
    if (r.u32() != crc32(before)) throw damaged_index("a pickle with another checksum");
    if (r.left() != 20) throw damaged_index("a body of another length");
    return impl::decoder_v1(body).run();
}

}  // namespace cairn::format::native

#endif
