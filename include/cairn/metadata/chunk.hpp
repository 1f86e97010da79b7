// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_CHUNK_HPP
#define CAIRN_METADATA_CHUNK_HPP

#include <cairn/tensor/box.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// Layout of a stored item, with which a reader can fetch part of it without parsing it. Written by
/// cairn into the native index; unknown for PyTorch's files. The payload is that of the item before
/// its transforms.
struct item_layout {
    std::uint64_t payload_offset = 0;  ///< Offset of the tensor's bytes from the item's first byte.
    std::uint64_t payload_length = 0;  ///< 0 for values.
    std::uint32_t payload_crc = 0;     ///< CRC-32 of the payload.
    std::uint32_t item_crc = 0;        ///< CRC-32 of all bytes of the item, as they are stored.
    index_vector strides{};            ///< Of the payload, in elements.
    friend bool operator==(const item_layout&, const item_layout&) = default;
};

/// The location of one item's bytes. DCP's `_StorageInfo`.
struct storage_location {
    std::string file{};  ///< Name relative to the checkpoint. Empty until written.
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::vector<std::string> transforms{};  ///< DCP's transform_descriptors, outermost first.
    std::optional<item_layout> layout{};
    friend bool operator==(const storage_location&, const storage_location&) = default;
};

/// One stored box of a tensor.
struct chunk {
    box region{};
    storage_location at{};
    friend bool operator==(const chunk&, const chunk&) = default;
};

}  // namespace cairn

#endif
