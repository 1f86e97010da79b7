// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_SAFETENSORS_LAYOUT_HPP
#define CAIRN_FORMAT_SAFETENSORS_LAYOUT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/format/target_file.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which bytes of which file a tensor gets: as the reference implementation writes them, in files
/// that are named and filled as `save_pretrained` of transformers does it.
namespace cairn::format::safetensors {

/// `__metadata__`: `format` is `pt` unless it says otherwise.
using header_text = std::map<std::string, std::string, std::less<>>;

/// A file before its elements are written.
struct target : target_file {
    std::vector<std::byte> head{};  ///< All bytes in front of the elements.
};

/// The usual names in a directory.
inline constexpr std::string_view single_name = "model.safetensors";
inline constexpr std::string_view index_name = "model.safetensors.index.json";
/// Whether a file of this name is one that a layout of a directory, or its index, may have.
CAIRN_DECL bool is_target_name(std::string_view name);

/// CRC-32 of the elements of tensors.
using tensor_crcs = std::map<std::string, std::uint32_t, std::less<>>;
/// The member of `__metadata__` that has them.
inline constexpr std::string_view crcs_key = "cairn_crc32";

/// Lays out one file.
/// @param tensors    In any order; their offsets are ignored.
/// @param checksums  There is room for @ref head_with_checksums.
/// @throws error errc::unsupported for a tensor that safetensors cannot store, naming it, or if the
/// header would be longer than the reference implementation reads; errc::invalid_argument for two
/// of one name, and for text that is not UTF-8
CAIRN_DECL target lay_out_file(std::string name, std::vector<target_tensor> tensors,
                               const header_text& text = {}, bool checksums = false);
/// Returns what is in front of the elements once they are known: `__metadata__` has the checksums
/// of the file's tensors as `cairn_crc32`, a JSON text. It fills the same bytes as the `head`.
/// @param text, file  As they were laid out.
CAIRN_DECL std::vector<std::byte> head_with_checksums(const target& file, const header_text& text,
                                                      const tensor_crcs& crcs);
/// Decodes the checksums of a file's tensors; empty if it has none.
/// @param text  Its `__metadata__`.
/// @throws error errc::corrupt
CAIRN_DECL tensor_crcs checksums_in(const header_text& text);

/// Lays out a directory: `model.safetensors`, or `model-00001-of-00002.safetensors` and so on.
/// @param tensors   Files are filled in this order.
/// @param max_size  Bytes of elements in a file; a tensor that is larger has a file of its own.
/// @throws error as `lay_out_file`; errc::unsupported if the index would be too long to be read
CAIRN_DECL std::vector<target> lay_out(std::vector<target_tensor> tensors, std::uint64_t max_size,
                                       const header_text& text = {}, bool checksums = false);

/// What cairn adds to the index of such files.
struct index_notes {
    std::string save_id{};
    tensor_crcs crcs{};
};
/// Encodes `model.safetensors.index.json`. `metadata` has `total_size`, and a member `cairn` with
/// the notes.
CAIRN_DECL std::string encode_index(std::span<const target> files, const index_notes& notes);
/// Checks, before anything is written, that the index of these files can be read.
/// @throws error errc::unsupported
CAIRN_DECL void check_index(std::span<const target> files);
/// Decodes the notes of an index; empty if it has none, as those that others write.
/// @throws error errc::corrupt
CAIRN_DECL index_notes decode_notes(std::span<const std::byte> index);

}  // namespace cairn::format::safetensors

#ifdef CAIRN_HEADER_ONLY
#include <cairn/format/impl/safetensors_layout.ipp>
#endif

#endif
