// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SAVE_PARTS_HPP
#define CAIRN_SAVE_DETAIL_SAVE_PARTS_HPP

#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/verb_parts.hpp>

#include <memory>

namespace cairn::detail {

class change_check;
class erased_stager;
class overlap_gate;
class plan_slot;

/// The parts of a save whose types only the verb knew. Null: the default.
struct save_parts : verb_parts {
    erased_save_planner* planner = nullptr;
    erased_storage_writer* writer = nullptr;
    std::shared_ptr<plan_slot> plans{};       ///< Null: each save is planned anew.
    erased_stager* stager = nullptr;          ///< Null: memory for this save only.
    std::shared_ptr<change_check> changes{};  ///< Null: changes are not detected.
    std::shared_ptr<overlap_gate> gate{};     ///< Null: the caller waits until it is staged.
    const char* verb = "save";
};

}  // namespace cairn::detail

#endif
