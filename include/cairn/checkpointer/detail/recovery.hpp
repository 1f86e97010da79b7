// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_RECOVERY_HPP
#define CAIRN_CHECKPOINTER_DETAIL_RECOVERY_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::detail {

/// Whether a load failed because the checkpoint is damaged, not because of the state, a device or a
/// connection.
CAIRN_DECL bool tells_of_damage(const rank_failure& f);
/// The same, or because storage did not give what it has: a copy elsewhere may serve.
CAIRN_DECL bool tells_of_this_copy(const rank_failure& f);

/// Whether a load that failed so had begun to write into the state.
CAIRN_DECL bool has_modified(const std::exception_ptr& e);
/// Throws it; if the state was modified before, as one that says so.
[[noreturn]] CAIRN_DECL void rethrow_after(const std::exception_ptr& e, bool modified, int rank);
/// Whether one is a copy of the other, in another store.
CAIRN_DECL bool is_copy(const std::optional<commit_record>& a,
                        const std::optional<commit_record>& b);

/// The search of all ranks for the newest checkpoint that is whole for each of them, in several
/// stores whose checkpoints have one order of commits. Of copies of one, that in the first store is
/// examined first. The coordinator lists and reads the metadata; every rank examines the files as
/// it sees them. All members are collective, and their results are the same on all ranks.
class recovery {
public:
    /// @param options   The coordinator's are used.
    /// @param activity  Shown to the other ranks. Not null.
    recovery(blocking_exchange& ranks, std::vector<any_store> tiers, latest_options options,
             std::shared_ptr<cairn::activity> activity)
        : ranks_(ranks), tiers_(std::move(tiers)), options_(std::move(options)),
          activity_(std::move(activity)) {}

    struct found {
        std::size_t tier = 0;  ///< In which of the stores it is.
        checkpoint_id id{};
        metadata meta{};
    };
    /// Returns the next older one that is whole.
    /// @throws error if the coordinator cannot list the checkpoints, or if there are some but none
    /// is whole
    CAIRN_DECL std::optional<found> next();

    /// Called after a load of the checkpoint that `next` returned.
    /// @param mine  How it has failed on this rank; null: it has not.
    /// @return Whether it has succeeded on all ranks; false: the checkpoint is damaged, so that an
    /// older one can be tried.
    /// @throws the failure if it is of another kind on any rank
    CAIRN_DECL bool loaded(const found& f, const std::exception_ptr& mine);

private:
    std::optional<found> search();
    std::vector<std::byte> candidate();
    std::optional<candidates::candidate> next_candidate();
    std::vector<std::byte> verdict(const std::vector<outcome>& all);
    bool leave_for_copy(const error& why);
    bool leave_for_copy(const std::vector<rank_failure>& why);

    blocking_exchange& ranks_;
    std::vector<any_store> tiers_;
    latest_options options_;
    std::shared_ptr<cairn::activity> activity_;
    std::vector<candidates> left_{};  ///< On the coordinator: of each store.
    bool modified_ = false;           ///< A load of one of them has begun to write into the state.
    std::size_t current_ = 0;         ///< Where the current candidate is, …
    std::optional<commit_record> record_{};  ///< … and its record.
    std::optional<error>
        unread_{};  ///< Why the candidate before could not be read: it is its copy.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/recovery.ipp>
#endif

#endif
