// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_SAFETENSORS_HEADER_HPP
#define CAIRN_FORMAT_SAFETENSORS_HEADER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/format/json.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// The format of Hugging Face's safetensors 0.8, as its reference implementation reads it.
namespace cairn::format::safetensors {

/// In front of the header: its length, little endian.
inline constexpr std::size_t length_bytes = 8;
/// The reference implementation refuses a longer header.
inline constexpr std::uint64_t max_header = 100'000'000;
/// An index that is longer is neither read nor written.
inline constexpr std::uint64_t max_index = max_header;

/// One tensor of a file. Its elements are in row-major order.
struct tensor {
    std::string name{};
    /// Of elements smaller than a byte: @ref dtype::float4_e2m1fn_x2 for F4, otherwise bytes, and
    /// the last dimension of `shape` counts these; it is the only one if they fill no whole bytes.
    dtype type = dtype::float32;
    index_vector shape{};
    std::string stored_as{};  ///< Dtype and shape in the file, if these cannot be told from those.
    std::uint64_t offset = 0, length = 0;  ///< In the file, in bytes.
    /// The name of a dtype that safetensors 0.8 does not have, with the shape as the file says it;
    /// `type` then has no meaning. Otherwise empty.
    std::string unknown_dtype{};
};

/// What is in front of the elements.
struct header {
    std::vector<tensor> tensors{};                           ///< In the order of their offsets.
    std::map<std::string, std::string, std::less<>> text{};  ///< `__metadata__`
};

/// Decodes the length of the header.
/// @throws error errc::corrupt if no file of `file_size` bytes has such a header; errc::unsupported
/// if the reference implementation would refuse its length
CAIRN_DECL std::uint64_t header_length(std::span<const std::byte, length_bytes> b,
                                       std::uint64_t file_size);

/// Reads a header, whose bytes `from` returns in pieces: each byte behind it belongs to exactly one
/// tensor. Memory: that of the result.
/// @param length  That of the header.
/// @throws error errc::corrupt naming the tensor
CAIRN_DECL header read_header(const json::source& from, std::uint64_t length,
                              std::uint64_t file_size);

/// What a file says of the tensor whose shard it has.
struct shard_place {
    std::optional<index_vector> offsets{};
    // Later versions of PyTorch write these.
    std::optional<index_vector> global_shape{};
    /// Of which it is a shard, if that is not its name: where a rank has several of one tensor.
    std::optional<std::string> logical_fqn{};
};
/// `DCP_SHARDING_INFO` of files that PyTorch's DCP writes for each rank, by name.
/// @throws error errc::corrupt
CAIRN_DECL std::map<std::string, shard_place, std::less<>> sharding_info(const std::string& text);

/// `*.safetensors.index.json` or `*.bin.index.json`: the file of each tensor.
/// @throws error errc::corrupt
CAIRN_DECL std::map<std::string, std::string, std::less<>> weight_map(
    std::span<const std::byte> index);

}  // namespace cairn::format::safetensors

#ifdef CAIRN_HEADER_ONLY
#include <cairn/format/impl/safetensors.ipp>
#endif

#endif
