// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_COMMITTED_HPP
#define CAIRN_CATALOG_DETAIL_COMMITTED_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// A place with a `.metadata`.
struct committed_checkpoint {
    checkpoint_id id{};
    std::optional<commit_record> record{};  ///< None: not saved by a checkpointer.
    std::string problem{};                  ///< Why the record could not be read. Empty: it could.
    bool damaged = false;                   ///< The problem is what is stored.
    bool linked = false;                    ///< Found by a link: nothing is removed there.
};

/// Sorts checkpoints by their commits, the oldest first. Those without a record come before all
/// others, in the order of their names, where numbers count as numbers; those that cannot be read
/// come last, since they may be the newest.
CAIRN_DECL bool is_before_by_commit(const committed_checkpoint& a, const committed_checkpoint& b);
CAIRN_DECL void sort_by_commit(std::vector<committed_checkpoint>& all);

/// All places directly within a store.
struct found_places {
    std::vector<committed_checkpoint> committed{};  ///< Ordered by `sort_by_commit`.
    std::vector<place_info> others{};
    std::vector<committed_checkpoint> denied{};  ///< Access is refused: their content is unknown.
};

/// A record that a run has read; it is read again if the place, or its `.metadata`, has changed
/// since, or if that is not known.
struct known_record {
    std::int64_t modified = 0;
    object_tag tag{};     ///< Of its `.metadata`, if the store lists tags.
    bool listed = false;  ///< Others find it in the list of records.
    std::optional<commit_record> record{};
};
using known_records = std::map<checkpoint_id, known_record>;
/// No record has a higher number, from which others could not go on.
inline constexpr std::uint64_t most_commits = std::uint64_t{1} << 62;

/// Reads a few bytes of each checkpoint whose record is not known, by this run or by the list of
/// records.
/// @param activity  Advanced for each; may be null.
/// @param known     Records that need not be read; those that are read are added. May be null.
/// @throws error errc::unsupported for a store that cannot list its places; what the store throws
CAIRN_DECL found_places find_places(any_store root, cairn::activity* activity = nullptr,
                                    known_records* known = nullptr);

/// Whether a place has a name that a `checkpointer` gives: `step_N`.
CAIRN_DECL bool is_step_name(std::string_view id);
/// Whether a place has no objects but had some, or has a name that a `checkpointer` gives:
/// otherwise it may belong to another program.
template <ObjectStore Store>
bool is_left_empty(Store& place, std::string_view id, bool had_objects) {
    if (!place.list().empty()) return false;
    return had_objects || is_step_name(id);
}

/// Reads the record of a checkpoint, without the rest of its metadata.
/// @return Nothing if it was not saved by a checkpointer, or if its sequence is one that no run
/// reaches: a forged file would otherwise always be the newest.
/// @throws error errc::not_found if there is no checkpoint; errc::corrupt, errc::checksum_mismatch
/// or errc::unsupported for a record that cannot be read
CAIRN_DECL std::optional<commit_record> read_commit_record(any_store& place);

/// Whether `a` is ordered before `b` if numbers in them count as numbers: `step_20`, `step_100`.
CAIRN_DECL bool is_before_by_number(const std::string& a, const std::string& b);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/committed.ipp>
#endif

#endif
