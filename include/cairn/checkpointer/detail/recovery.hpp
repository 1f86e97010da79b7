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

/// The search of all ranks for the newest checkpoint that is whole for each of them. The
/// coordinator lists and reads the metadata; every rank examines the files as it sees them.
/// All members are collective, and their results are the same on all ranks.
class recovery {
public:
    /// @param options  The coordinator's are used.
    recovery(blocking_exchange& ranks, any_store root, latest_options options,
             std::shared_ptr<cairn::activity> activity)
        : ranks_(ranks), root_(std::move(root)), options_(std::move(options)),
          activity_(std::move(activity)) {}

    struct found {
        checkpoint_id id{};
        std::string save_id{};
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
    template <class F>
    outcome answered(F&& f);
    std::vector<std::byte> candidate();
    std::vector<std::byte> verdict(const std::vector<outcome>& all);

    blocking_exchange& ranks_;
    any_store root_;
    latest_options options_;
    std::shared_ptr<cairn::activity> activity_;
    std::optional<candidates> left_{};  ///< On the coordinator.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/recovery.ipp>
#endif

#endif
