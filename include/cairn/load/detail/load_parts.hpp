// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_LOAD_PARTS_HPP
#define CAIRN_LOAD_DETAIL_LOAD_PARTS_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/comm/detail/erased_data_plane.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <memory>
#include <optional>

namespace cairn {
class mapping;
}

namespace cairn::detail {

/// The parts of a load whose types only the verb knew. Null: the default; for data planes, none.
struct load_parts {
    erased_communicator* ranks = nullptr;
    bool alone = false;  ///< A `solo` was passed explicitly.
    erased_load_planner* planner = nullptr;
    erased_storage_reader* reader = nullptr;
    std::optional<any_store> store{};  ///< For the default reader.
    erased_data_plane* plane = nullptr;
    erased_sinks sinks{};
    const char* verb = "load";
    std::shared_ptr<void> owner{};             ///< Of parts that are not borrowed from the caller.
    std::shared_ptr<state_devices> devices{};  ///< Fenced. Null: no memory spaces.
    std::shared_ptr<const mapping> names{};    ///< Null: those of the checkpoint.
    /// The state is a part of what the mapping is for: its lines may be for others.
    bool some_names = false;
};

}  // namespace cairn::detail

#endif
