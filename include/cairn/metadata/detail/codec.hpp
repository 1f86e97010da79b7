// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_CODEC_HPP
#define CAIRN_METADATA_DETAIL_CODEC_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// How the parts of metadata are encoded, in the native index on storage as well as between ranks.
///
/// The bytes are those of the native index: changing them changes the format. Every `get` throws
/// @ref error with @ref errc::corrupt for bytes that no `put` writes, and allocates no more than a
/// small multiple of the bytes left to read.
namespace cairn::detail {

/// The maximum number of dimensions, PyTorch's own.
inline constexpr std::size_t most_dimensions = 64;

CAIRN_DECL void put(wire_writer& w, dtype type);
/// @throws error errc::unsupported for one of a later version
CAIRN_DECL dtype get_dtype(wire_reader& r);

/// Writes a shape, offsets or strides: a number per dimension.
CAIRN_DECL void put(wire_writer& w, const index_vector& numbers);
/// Returns any numbers, also negative ones: the caller checks them, and names the tensor if they
/// are invalid.
CAIRN_DECL index_vector get_numbers(wire_reader& r);
/// Returns the shape of a tensor: @ref is_possible holds for it.
CAIRN_DECL index_vector get_shape(wire_reader& r);

/// Writes a box of a plan that has not been checked yet: any numbers, with separate counts of
/// offsets and shape.
CAIRN_DECL void put(wire_writer& w, const box& region);
CAIRN_DECL box get_box(wire_reader& r);

CAIRN_DECL void put(wire_writer& w, const key_path& path);
CAIRN_DECL key_path get_path(wire_reader& r);

CAIRN_DECL void put(wire_writer& w, const item_layout& layout);
CAIRN_DECL item_layout get_layout(wire_reader& r);

/// Writes a location without its file: the index refers to a file by number, a plan's results by
/// name.
CAIRN_DECL void put_within_file(wire_writer& w, const storage_location& at);
CAIRN_DECL storage_location get_within_file(wire_reader& r, std::string file);
/// Returns the location, without its file, if the chunk is unusual; otherwise sets `at`, except its
/// file.
CAIRN_DECL std::optional<storage_location> get_within_file(wire_reader& r, chunk_list::row& at,
                                                           std::span<const std::int64_t> lengths);

CAIRN_DECL void put(wire_writer& w, std::span<const std::string> strings);
CAIRN_DECL std::vector<std::string> get_strings(wire_reader& r);

using file_size_map = std::map<std::string, std::uint64_t, std::less<>>;
CAIRN_DECL void put(wire_writer& w, const file_size_map& file_sizes);
CAIRN_DECL file_size_map get_file_sizes(wire_reader& r);

/// Returns the entry for a key that must be new.
template <class Map>
typename Map::mapped_type& place_for_key(Map& map, const std::string& fqn) {
    auto const before = map.size();
    auto const found = map.try_emplace(map.end(), fqn);  // cairn writes them in order
    if (map.size() == before) wire_reader::fail("a key twice");
    return found->second;
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/codec.ipp>
#endif

#endif
