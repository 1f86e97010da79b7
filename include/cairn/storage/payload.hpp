// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_PAYLOAD_HPP
#define CAIRN_STORAGE_PAYLOAD_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cairn {

/// The stored elements of a tensor's chunk: where they are in a file, and the checksums of the
/// bytes. Several tensors may have elements in the same bytes.
struct payload {
    /// The number of bytes that each entry of `block_crcs` covers; the last one may cover fewer.
    static constexpr std::uint64_t block_bytes = std::uint64_t{64} << 10;

    dtype type = dtype::float32;
    index_vector shape{};
    index_vector strides{};    ///< In elements; none is negative.
    std::uint64_t first = 0;   ///< The first element, in elements from the beginning of the bytes.
    std::uint64_t offset = 0;  ///< Of the bytes, in the file.
    std::uint64_t length = 0;  ///< Of the bytes, including those that belong to no element.
    /// CRC-32 of all bytes. Without `block_crcs` one thread reads all of them, whatever is wanted;
    /// with them it only tells equal chunks (@ref ChecksumReader).
    std::optional<std::uint32_t> crc{};
    /// `crc` is compared only where all bytes are wanted, by any number of threads; parts are read
    /// alone, and reported as unverified. Who reads all of it piece by piece, like a conversion,
    /// compares it with the first piece.
    bool parts_unchecked = false;
    std::vector<std::uint32_t> block_crcs{};  ///< CRC-32 of each block: only those needed are read.
    bool big_endian = false;
    bool conjugate = false;  ///< A lazy view: the elements are the conjugates of the stored ones.
    bool negative = false;   ///< The same: the negated ones.
    /// The bytes, if they were read to find them, or decoded; otherwise empty. Decoded ones have
    /// the `offset` of what they were decoded from.
    byte_vector content{};
    /// Reads these bytes, from the one at `at` on, where they are decoded as they are read: the
    /// file does not have them, and `content` is empty. Empty: the file has them. Called by one
    /// thread, for later bytes each time unless all have to be read before some are.
    std::function<void(std::uint64_t at, std::span<std::byte> into)> read_content{};

    /// Whether the elements are others than the stored ones.
    bool is_changed() const noexcept { return big_endian || conjugate || negative; }
    bool is_in_file() const noexcept { return content.empty() && !read_content; }
    bool has_checksum() const noexcept { return crc || !block_crcs.empty(); }
};

}  // namespace cairn

#endif
