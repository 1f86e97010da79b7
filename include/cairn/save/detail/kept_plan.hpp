// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_KEPT_PLAN_HPP
#define CAIRN_SAVE_DETAIL_KEPT_PLAN_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/save/detail/replicas.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::detail {

/// A rank's encoded local plan, in the message that it arrived with. The bytes before it, the
/// numbers of its values, are not used again.
struct local_message {
    std::vector<std::byte> bytes{};
    std::size_t begin = 0;  ///< Of the plan, which ends with the message.

    std::span<const std::byte> plan() const { return std::span(bytes).subspan(begin); }
};

/// The joint plan of all ranks: on the coordinator, of one save or of several in a row.
struct joint_plan {
    std::optional<plan_table> table{};    ///< Borrows `locals`. Otherwise:
    std::vector<save_plan> plans{};       ///< as the planner made them, in rank order;
    metadata meta{};                      ///< without locations.
    std::vector<stored_amount> stored{};  ///< By each rank, if the writer names files by it.
    replica_table replicas{};
    std::vector<local_message> locals{};  ///< The plans that it was made of; see `kept_plan`.
    /// For later saves: for each rank, and each value of its local plan, the number of its name.
    std::vector<std::vector<std::uint32_t>> values{};
};

/// The plan of a committed save, as a rank keeps it. Ranks that keep plans of the same generation
/// have made them together: the coordinator's `joint` was made of their local plans, and its parts
/// were sent to them.
struct kept_plan {
    std::string generation;          ///< The save id of the save that made it.
    std::string key;                 ///< All that it depends on besides the local plans.
    std::vector<std::byte> local;    ///< This rank's, encoded, without the numbers of values.
    save_plan sent;                  ///< This rank's part of it, without file names.
    std::vector<held_replica> held;  ///< What this rank compares with others.
    std::shared_ptr<const joint_plan> joint{};  ///< On the coordinator.
};

/// Holds a kept plan for all saves that share the slot. A kept plan does not change. Thread-safe.
class plan_slot {
public:
    plan_slot() = default;
    plan_slot(plan_slot&&) = delete;

    std::shared_ptr<const kept_plan> kept() const {
        std::lock_guard const lock(m_);
        return kept_;
    }
    /// @param times_cleared  The value when the save that made it began: a plan from before a
    ///                       `clear` is not kept.
    void keep(std::shared_ptr<const kept_plan> k, std::uint64_t times_cleared) {
        std::lock_guard const lock(m_);
        if (times_cleared == times_cleared_) kept_.swap(k);  // the old one ends without the lock
    }
    void clear() {
        std::shared_ptr<const kept_plan> old;
        std::lock_guard const lock(m_);
        kept_.swap(old);
        ++times_cleared_;
    }
    std::uint64_t times_cleared() const {
        std::lock_guard const lock(m_);
        return times_cleared_;
    }

private:
    mutable std::mutex m_{};
    std::uint64_t times_cleared_ = 0;
    std::shared_ptr<const kept_plan> kept_{};
};

}  // namespace cairn::detail

#endif
