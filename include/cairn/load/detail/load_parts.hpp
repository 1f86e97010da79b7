// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_LOAD_PARTS_HPP
#define CAIRN_LOAD_DETAIL_LOAD_PARTS_HPP

#include <cairn/comm/detail/erased_data_plane.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/verb/detail/verb_parts.hpp>

namespace cairn::detail {

/// The parts of a load whose types only the verb knew. Null: the default; for data planes, none.
struct load_parts : verb_parts {
    erased_load_planner* planner = nullptr;
    erased_storage_reader* reader = nullptr;
    erased_data_plane* plane = nullptr;
    /// The state is a part of what the mapping is for: its lines may be for others.
    bool some_names = false;
    const char* verb = "load";
};

}  // namespace cairn::detail

#endif
