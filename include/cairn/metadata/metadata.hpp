// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_METADATA_HPP
#define CAIRN_METADATA_METADATA_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cairn {

/// One step of a path through nested mappings (names) and lists (positions).
/// DCP's planner_data keeps mapping keys as strings and list positions as integers.
using path_element = std::variant<std::string, std::int64_t>;
using key_path = std::vector<path_element>;
/// The maximum number of path elements: each is a level of nesting, which is walked recursively.
inline constexpr std::size_t most_path_steps = 256;

/// Layout of a stored item, which lets a reader fetch part of it without parsing it. Written by
/// cairn into the native index; unknown for PyTorch's files.
struct item_layout {
    std::uint64_t payload_offset = 0;  ///< Offset of the tensor's bytes from the item's first byte.
    std::uint64_t payload_length = 0;  ///< 0 for values.
    std::uint32_t payload_crc = 0;     ///< CRC-32 of the payload.
    std::uint32_t item_crc = 0;        ///< CRC-32 of all bytes of the item.
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

/// DCP's `TensorStorageMetadata`.
struct tensor_metadata {
    dtype type = dtype::float32;
    index_vector shape{};
    bool requires_grad = false;
    std::vector<chunk> chunks{};
    friend bool operator==(const tensor_metadata&, const tensor_metadata&) = default;
};

/// DCP's `BytesStorageMetadata`: any value that is not a tensor.
struct value_metadata {
    storage_location at{};
    friend bool operator==(const value_metadata&, const value_metadata&) = default;
};

/// The contents of a checkpoint. DCP's `Metadata`, with the storage data folded into chunks.
struct metadata {
    std::map<std::string, std::variant<tensor_metadata, value_metadata>, std::less<>> entries{};
    /// Flat name → path in the nested state dict. Empty if it was saved without flattening.
    std::map<std::string, key_path, std::less<>> paths{};
    std::string save_id{};  ///< 32 hex digits for cairn's own checkpoints, otherwise empty.
    /// Sizes of the data files: as the coordinator saw them at commit if cairn wrote them;
    /// otherwise as the reader found them. Empty if a reader has no files.
    std::map<std::string, std::uint64_t, std::less<>> file_sizes{};

    const tensor_metadata* tensor(std::string_view fqn) const;
    const value_metadata* value(std::string_view fqn) const;
    friend bool operator==(const metadata&, const metadata&) = default;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/metadata.ipp>
#endif

#endif
