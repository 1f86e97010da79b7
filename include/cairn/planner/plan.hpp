// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_PLAN_HPP
#define CAIRN_PLANNER_PLAN_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// DCP's WriteItemType. The values are part of the wire format.
enum class item_kind : std::uint8_t { tensor = 1, shard = 2, value = 3 };

/// One item that one rank will write. DCP's `WriteItem`.
struct write_item {
    std::string fqn{};
    item_kind kind = item_kind::value;
    // Tensors and shards:
    dtype type = dtype::float32;
    bool requires_grad = false;
    index_vector global_shape{};  ///< Of the whole tensor.
    box region{};                 ///< The box of the tensor that this item holds.
    /// The name of an earlier item of this rank with the same box and the very same memory (a tied
    /// weight); empty: none. A writer may store the two once and report one location for both.
    std::string tied_to{};
    // Values: bytes when encoded (0 if unknown), and their hash, which distinguishes replicas.
    std::uint64_t value_bytes = 0;
    std::uint64_t value_hash = 0;
    /// Index of the leaf and of its shard in the rank's own flat state; meaningless elsewhere.
    std::uint32_t leaf = 0;
    std::uint32_t shard_index = 0;
    /// A `shard_index`: the rank has no shard of the tensor, may not know its dtype; empty box.
    static constexpr std::uint32_t no_shard = UINT32_MAX;

    /// Returns the bytes of content that this item adds to storage.
    std::uint64_t content_bytes() const noexcept {
        return kind == item_kind::value
                   ? value_bytes
                   : static_cast<std::uint64_t>(region.volume()) * size_of(type);
    }
    friend bool operator==(const write_item&, const write_item&) = default;
};

/// The items that one rank will write. DCP's `SavePlan`; `storage_data` is for the StorageWriter's
/// own use, e.g. a file prefix, and travels with the plan.
struct save_plan {
    std::vector<write_item> items{};
    std::vector<std::pair<std::string, key_path>> paths{};  ///< planner_data of this rank's leaves.
    /// As @ref metadata::text_keys, for a writer that keeps what they were. Not sent: only the
    /// coordinator has them, in the first plan.
    std::set<key_path> text_keys{};
    std::string storage_data{};
    /// For the SavePlanner's own use: of its local step, for its global one.
    std::string planner_data{};
    friend bool operator==(const save_plan&, const save_plan&) = default;
};

/// How much of a plan one rank stores; items that are tied to another one are stored with it.
struct stored_amount {
    std::size_t items = 0;
    std::uint64_t bytes = 0;    ///< Of elements and values.
    std::uint64_t largest = 0;  ///< Bytes of the largest item.

    void add(std::uint64_t item_bytes) noexcept {
        ++items;
        bytes += item_bytes;
        if (item_bytes > largest) largest = item_bytes;
    }
    friend bool operator==(const stored_amount&, const stored_amount&) = default;
};

/// One copy from storage into memory (tensors), or one value to read. DCP's `ReadItem`.
struct read_item {
    std::string fqn{};
    item_kind kind = item_kind::value;
    std::uint32_t leaf = 0;         ///< The destination: leaf of this rank's flat state …
    std::uint32_t shard_index = 0;  ///< … and which of its shards.
    std::uint32_t chunk = 0;        ///< The source: position in `tensor_metadata::chunks`.
    index_vector source_offsets{};  ///< Relative to the stored chunk.
    index_vector target_offsets{};  ///< Relative to the destination shard.
    index_vector shape{};
    friend bool operator==(const read_item&, const read_item&) = default;
};

/// The items that one rank will read. DCP's `LoadPlan`.
struct load_plan {
    std::vector<read_item> items{};
    /// Names that were requested and need no item: no elements, or read under another name.
    std::vector<std::string> no_items{};
    std::string storage_data{};
    /// For the LoadPlanner's own use. The default planner's global step replaces it on all ranks.
    std::string planner_data{};
    friend bool operator==(const load_plan&, const load_plan&) = default;
};

/// A weight that is in a rank's state once, under two names, and in the checkpoint twice. It is
/// read under one name only.
struct stored_tie {
    std::string fqn{};   ///< The name that is not read.
    std::string read{};  ///< The name that is.
    /// The chunks of the first that this rank would need, and those of the second that are the same
    /// box. Empty: a chunk has no counterpart, or the dtypes differ.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> chunks{};
};

/// Which of the ranks that hold an item writes it.
enum class replica_writer : std::uint8_t {
    least_loaded,  ///< The lowest of them on a tie.
    lowest_rank
};

/// A tensor that is not in memory as a whole, e.g. because it is another checkpoint's: a writer
/// asks for its elements piece by piece.
struct tensor_source {
    dtype type = dtype::float32;
    index_vector shape{};
    /// Fills `into` with the bytes from `at` on: whole elements, in row-major order without gaps.
    /// Called by any thread, several at a time; may throw.
    std::function<void(std::uint64_t at, std::span<std::byte> into)> read{};
    /// With `check`: the same without comparing checksums, which saves a writer that computes one
    /// itself a pass. Both may be empty.
    std::function<void(std::uint64_t at, std::span<std::byte> into)> read_unchecked{};
    /// Must be called with the CRC-32 of all bytes, once they were read in their order by
    /// `read_unchecked`: throws if they are not those that were stored.
    std::function<void(std::uint32_t crc)> check{};

    std::uint64_t bytes() const {
        return static_cast<std::uint64_t>(shape.product()) * size_of(type);
    }
};

/// The data that a StorageWriter receives for one item: elements in memory, a plain value to
/// encode, or, when a checkpoint is converted, elements to ask for. All are borrowed until the
/// write completes.
using item_data = std::variant<const_tensor_view, const value*, const tensor_source*>;

/// The location of one written item. DCP's `WriteResult`.
struct write_result {
    std::uint32_t item = 0;  ///< Position in the rank's plan.
    storage_location at{};
    friend bool operator==(const write_result&, const write_result&) = default;
};

/// The report of one rank's write step: the items' locations, and the length of each file.
struct write_results {
    std::vector<write_result> items{};
    std::map<std::string, std::uint64_t, std::less<>> file_sizes{};
    /// Warnings; the save's report adds the rank.
    std::vector<std::string> warnings{};
    friend bool operator==(const write_results&, const write_results&) = default;
};

}  // namespace cairn

#endif
