// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SAVE_PLANS_HPP
#define CAIRN_SAVE_DETAIL_SAVE_PLANS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/detail/value_numbers.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/save/detail/item_sources.hpp>
#include <cairn/save/detail/kept_plan.hpp>
#include <cairn/save/detail/place_results.hpp>
#include <cairn/save/detail/replicas.hpp>
#include <cairn/save/options.hpp>
#include <cairn/storage/detail/erased_storage.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Returns all that the joint plan of a save depends on besides the local plans; nothing if that
/// cannot be told. Called after the planner's local plan was made.
CAIRN_DECL std::optional<std::string> plan_key(erased_save_planner& planner,
                                               const save_options& options, int rank, int size);

/// The plans of one save on one rank, and their messages: plans made together with the other ranks,
/// or those of an earlier save if nothing has changed on any rank.
///
/// The coordinator offers a *generation*: a save of whose plan it has kept everything. A rank that
/// has kept its part of that same plan, and plans the same again, says *unchanged* instead of
/// sending its local plan. If all do, the coordinator answers with the names of files alone. If
/// some do not, it uses the plans that the others sent in that earlier save. See
/// docs/decisions/0018-kept-plans.md.
class save_plans {
public:
    /// @param slot  Null: nothing is kept from save to save.
    explicit save_plans(std::shared_ptr<plan_slot> slot)
        : slot_(std::move(slot)), times_cleared_(slot_ ? slot_->times_cleared() : 0),
          kept_(slot_ ? slot_->kept() : nullptr) {}

    /// On the coordinator. @return The generation; empty: none.
    std::string offer() const { return kept_ && kept_->joint ? kept_->generation : std::string(); }
    void offered(std::string generation) { offered_ = std::move(generation); }

    /// @param key      What the joint plan depends on besides the local plans; nothing: on more.
    /// @param sources  Of its items, with a mapping.
    /// @return The message to the coordinator.
    CAIRN_DECL std::vector<std::byte> send_local(save_plan local, std::optional<std::string> key,
                                                 item_sources sources = {});
    /// The local plan, as this rank made it.
    const save_plan& local() const noexcept { return local_; }

    /// On the coordinator: makes the joint plan, or takes the earlier one, and claims the place.
    /// @param told  By each rank, in rank order: a message, whose memory becomes the joint plan's.
    CAIRN_DECL void join(std::span<outcome> told, erased_save_planner& planner,
                         erased_storage_writer& writer, const save_options& options);
    /// The message to a rank.
    CAIRN_DECL std::vector<std::byte> answer(std::size_t rank) const;
    /// A rank's `storage_data`.
    const std::string& file_names(std::size_t rank) const {
        return file_names_.empty() ? joint_->plans.at(rank).storage_data : file_names_.at(rank);
    }
    replica_table replicas() const { return joint_->replicas; }
    /// Returns the metadata of the joint plan. Called once.
    CAIRN_DECL metadata take_metadata();
    /// Places the results, encoded, of a rank that has carried out what it was sent.
    /// @param placer  Of that metadata.
    CAIRN_DECL void place(result_placer& placer, std::span<const std::byte> results,
                          std::size_t rank) const;

    /// Reads the coordinator's message.
    CAIRN_DECL void receive(std::span<const std::byte> message);
    /// This rank's part of the joint plan, with the names of its files.
    const save_plan& sent() const noexcept { return sent_; }
    /// The items of the local plan that other ranks hold too.
    const std::vector<held_replica>& held() const noexcept { return held_; }
    bool reused() const noexcept { return reused_; }
    /// On the coordinator: whether a rank has a state that a mapping has given stored names.
    bool mapped() const noexcept { return mapped_; }

    /// Keeps the plan for later saves, if there is memory for it. Called last, and only if this
    /// save is known to be committed.
    CAIRN_DECL void keep(const std::string& save_id) noexcept;

private:
    /// Of each rank, the numbers of the values of its local plan, which is encoded without them.
    using values_by_rank = std::vector<std::vector<value_numbers>>;

    bool values_agree(const values_by_rank& all) const;
    void name_files(erased_storage_writer& writer);
    void make_plans(const plan_table& t, bool joined, const values_by_rank& values,
                    erased_save_planner& planner, erased_storage_writer& writer);

    std::shared_ptr<plan_slot> slot_;
    std::uint64_t times_cleared_;
    std::shared_ptr<const kept_plan> kept_;
    std::string offered_{};
    std::optional<std::string> key_{};
    save_plan local_{};
    std::vector<std::byte> encoded_{};  ///< The local plan, without the numbers of values.
    std::shared_ptr<joint_plan> made_{};
    std::shared_ptr<const joint_plan> joint_{};
    std::vector<std::string> file_names_{};  ///< `storage_data` of each rank.
    save_plan sent_{};
    std::vector<held_replica> held_{};
    bool unchanged_ = false;  ///< This rank's part.
    bool keeps_ = false;      ///< The coordinator keeps the joint plan.
    bool reused_ = false;
    bool mapped_ = false;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/save_plans.ipp>
#endif

#endif
