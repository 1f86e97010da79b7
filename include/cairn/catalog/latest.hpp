// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_LATEST_HPP
#define CAIRN_CATALOG_LATEST_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/whole.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// How the newest checkpoint is searched for.
struct latest_options {
    /// How thoroughly each candidate is examined.
    verify_level verify = verify_level::metadata;
    /// Renames the `.metadata` of a damaged checkpoint to `.metadata.quarantined`, so that it is
    /// not found again. Only if the coordinator has examined it again and finds it damaged too, and
    /// a missing file or a wrong size only if all ranks find it: it could be the view of one host.
    /// Not through a symbolic link.
    bool quarantine = false;
    /// Called with one sentence for each checkpoint that is skipped because it is damaged, and for
    /// each other place to which access is refused; by a `checkpointer` on the coordinator only.
    /// Empty: one line on standard error.
    std::function<void(const std::string&)> on_skipped{};
};

namespace detail {

/// Iterates over the whole checkpoints of a store, from the newest to the oldest.
class candidates {
public:
    /// @param activity  Advanced for each checkpoint, and as one is read; may be null.
    /// @throws error errc::unsupported for a store that cannot list its places
    CAIRN_DECL candidates(any_store root, latest_options options,
                          std::shared_ptr<cairn::activity> activity = nullptr);

    struct candidate {
        checkpoint_id id{};
        metadata meta{};
    };
    /// Returns the next one whose metadata is valid; nothing if there are no checkpoints.
    /// @throws error errc::corrupt if there are, but all were skipped, or quarantined earlier; the
    /// cause, if it cannot be determined whether the next one is damaged
    CAIRN_DECL std::optional<candidate> next();
    /// The steps of `next`, for the search of several stores: the newest that is left, or null;
    /// that one, if its metadata is valid; what follows when none is left.
    const committed_checkpoint* newest() const {
        return left_.committed.empty() ? nullptr : &left_.committed.back();
    }
    CAIRN_DECL std::optional<candidate> next_one();
    CAIRN_DECL void check_none_skipped();
    /// Skips the candidate that `next` has returned, because it is damaged.
    /// @param for_all  Every process that has examined it says so.
    /// @param level    How thoroughly it is examined before it is quarantined.
    CAIRN_DECL void skip(const checkpoint_problem& why, bool for_all, verify_level level);

private:
    void name_denied();
    void tell(const std::string& text) const;
    void look_again(committed_checkpoint c);
    void refuse_newer_of_ranks(const checkpoint_id& next);
    void fail_if_quarantined();
    void put_aside(bool for_all, verify_level level);

    any_store root_;
    latest_options options_;
    std::shared_ptr<cairn::activity> activity_;
    found_places left_;
    checkpoint_id current_{};
    bool linked_ = false;    ///< The current one is.
    object_tag examined_{};  ///< Of the current one's metadata.
    std::size_t skipped_ = 0;
    checkpoint_id newest_{};     ///< Of those that were skipped, …
    std::string its_problem_{};  ///< … and why.
};

CAIRN_DECL std::optional<checkpoint_id> latest(any_store root, const latest_options& options);

}  // namespace detail

/// Returns the newest checkpoint within a directory that is whole, as a path for `load`; nothing if
/// there are no checkpoints. For one process: if there are several, let one of them call it, or use
/// `checkpointer::latest`, which examines what each rank sees.
/// @throws error errc::corrupt if there are checkpoints but none is whole, or all were quarantined,
/// because training could otherwise start from scratch unnoticed; the cause, if it cannot be
/// determined whether the newest is damaged: an error of the file system, errc::unsupported, or
/// errc::permission_denied, which is also thrown for an older one named as by a `checkpointer`
/// (`step_N`)
CAIRN_DECL std::optional<checkpoint_id> latest(const std::string& directory,
                                               const latest_options& options = {});
/// Overload for a store; the result is an argument for `store.at`.
template <BrowsableStore Store>
std::optional<checkpoint_id> latest(Store& store, const latest_options& options = {}) {
    return detail::latest(any_store::share(store), options);
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/latest.ipp>
#endif

#endif
