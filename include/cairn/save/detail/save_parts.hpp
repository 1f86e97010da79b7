// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SAVE_PARTS_HPP
#define CAIRN_SAVE_DETAIL_SAVE_PARTS_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <memory>
#include <optional>

namespace cairn {

class mapping;

namespace detail {

class change_check;
class erased_stager;
class overlap_gate;
class plan_slot;

/// The parts of a save whose types only the verb knew. Null: the default.
struct save_parts {
    erased_communicator* ranks = nullptr;
    bool alone = false;  ///< A `solo` was passed explicitly.
    erased_save_planner* planner = nullptr;
    erased_storage_writer* writer = nullptr;
    std::optional<any_store> store{};  ///< For the default writer.
    erased_stager* stager = nullptr;   ///< Null: memory for this save only.
    erased_sinks sinks{};
    const char* verb = "save";
    std::shared_ptr<void> owner{};             ///< Of parts that are not borrowed from the caller.
    std::shared_ptr<state_devices> devices{};  ///< Fenced. Null: no memory spaces.
    std::shared_ptr<change_check> changes{};   ///< Null: changes are not detected.
    std::shared_ptr<overlap_gate> gate{};      ///< Null: the caller waits until it is staged.
    std::shared_ptr<plan_slot> plans{};        ///< Null: each save is planned anew.
    std::shared_ptr<const mapping> names{};    ///< Null: those of the state.
};

}  // namespace detail
}  // namespace cairn

#endif
