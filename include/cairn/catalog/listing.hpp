// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_LISTING_HPP
#define CAIRN_CATALOG_LISTING_HPP

#include <cairn/catalog/whole.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

enum class checkpoint_state : std::uint8_t {
    complete,
    in_progress,  ///< Being saved, or removed.
    broken,       ///< Damaged, or left by a save or removal that was interrupted.
    quarantined,  ///< Damaged, and put aside by `latest`.
    unreadable,   ///< It may be whole: access was refused, storage failed, or this version does not
                  ///< understand it. If access was refused, it need not be a checkpoint.
    committed     ///< It exists, and was not examined.
};
CAIRN_DECL const char* name_of(checkpoint_state s);

/// One checkpoint of a directory or store.
struct listed_checkpoint {
    checkpoint_id id{};
    checkpoint_state state = checkpoint_state::complete;
    std::string problem{};                  ///< Why it is not complete.
    std::uint64_t bytes = 0;                ///< Of its files.
    std::optional<commit_record> record{};  ///< If a `checkpointer` has saved it.
};

namespace detail {
CAIRN_DECL std::vector<listed_checkpoint> list_checkpoints(any_store root,
                                                           std::optional<verify_level> level);
}  // namespace detail

/// Lists the checkpoints directly within a directory: those that exist in the order of their
/// commits, the oldest first, then the others. Those that no `checkpointer` has saved come before
/// the ones that it has, in the order of their names, where numbers count as numbers.
/// @param level  How thoroughly each is examined. `std::nullopt`: not at all; a bucket then takes a
/// few requests for all of them, where a `checkpointer` has listed their records.
CAIRN_DECL std::vector<listed_checkpoint> list_checkpoints(
    const std::string& directory, std::optional<verify_level> level = verify_level::metadata);
/// Overload for a store.
template <BrowsableStore Store>
std::vector<listed_checkpoint> list_checkpoints(
    Store& store, std::optional<verify_level> level = verify_level::metadata) {
    return detail::list_checkpoints(any_store::share(store), level);
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/listing.ipp>
#endif

#endif
