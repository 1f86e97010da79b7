// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_RUN_LOAD_HPP
#define CAIRN_LOAD_RUN_LOAD_HPP

#include <cairn/comm/erased_communicator.hpp>
#include <cairn/comm/erased_data_plane.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/parts.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/parts.hpp>
#include <cairn/object_store/erased_store.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <optional>
#include <tuple>

namespace cairn::detail {

struct load_part_check {
    template <class T>
    static constexpr bool is = LoadPart<T>;
};

/// The parts of a load whose types only the verb knew. Null: the default; for data planes, none.
struct load_parts {
    erased_communicator* ranks = nullptr;
    bool alone = false;  ///< A `solo` was passed explicitly.
    erased_load_planner* planner = nullptr;
    erased_storage_reader* reader = nullptr;
    std::optional<erased_store> store{};  ///< For the default reader.
    erased_data_plane* plane = nullptr;
};

/// The part of `load` that does not depend on the user's types.
CAIRN_DECL load_report run_load(flattened_or_error& flat, const checkpoint_id& id,
                                const load_options& options, load_parts parts);

/// Runs a load with the given leaves (or the reason why there are none) and parts.
template <class... Parts>
load_report run_load(flattened_or_error& flat, const checkpoint_id& id, const load_options& options,
                     std::tuple<Parts...>& parts) {
    static_assert(count_of<communicator_part, Parts...> <= 1, "load: two communicators");
    static_assert(count_of<load_planner_part, Parts...> <= 1, "load: two planners");
    static_assert(count_of<reader_part, Parts...> + count_of<store_part, Parts...> <= 1,
                  "load: give a StorageReader or an ObjectStore, not both");
    static_assert(count_of<data_plane_part, Parts...> <= 1, "load: two data planes");
    auto ranks = ref_to<communicator_part, communicator_ref>(parts);
    auto planner = ref_to<load_planner_part, load_planner_ref>(parts);
    auto reader = ref_to<reader_part, storage_reader_ref>(parts);
    auto plane = ref_to<data_plane_part, data_plane_ref>(parts);
    return run_load(
        flat, id, options,
        {pointer_to<erased_communicator>(ranks), has_type<solo, Parts...>,
         pointer_to<erased_load_planner>(planner), pointer_to<erased_storage_reader>(reader),
         store_in(parts), pointer_to<erased_data_plane>(plane)});
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/run_load.ipp>
#endif

#endif
