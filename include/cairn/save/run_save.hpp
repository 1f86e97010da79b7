// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_RUN_SAVE_HPP
#define CAIRN_SAVE_RUN_SAVE_HPP

#include <cairn/comm/erased_communicator.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/parts.hpp>
#include <cairn/object_store/erased_store.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/storage/erased_storage.hpp>

#include <optional>
#include <tuple>

namespace cairn::detail {

struct save_part_check {
    template <class T>
    static constexpr bool is = SavePart<T>;
};

/// The parts of a save whose types only the verb knew. Null: the default.
struct save_parts {
    erased_communicator* ranks = nullptr;
    bool alone = false;  ///< A `solo` was passed explicitly.
    erased_save_planner* planner = nullptr;
    erased_storage_writer* writer = nullptr;
    std::optional<erased_store> store{};  ///< For the default writer.
};

/// The part of `save` that does not depend on the user's types.
CAIRN_DECL save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                                const save_options& options, save_parts parts);

/// Runs a save with the given leaves (or the reason why there are none) and parts.
template <class... Parts>
save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                     const save_options& options, std::tuple<Parts...>& parts) {
    static_assert(count_of<communicator_part, Parts...> <= 1, "save: two communicators");
    static_assert(count_of<save_planner_part, Parts...> <= 1, "save: two planners");
    static_assert(count_of<writer_part, Parts...> + count_of<store_part, Parts...> <= 1,
                  "save: give a StorageWriter or an ObjectStore, not both");
    auto ranks = ref_to<communicator_part, communicator_ref>(parts);
    auto planner = ref_to<save_planner_part, save_planner_ref>(parts);
    auto writer = ref_to<writer_part, storage_writer_ref>(parts);
    return run_save(flat, id, options,
                    {pointer_to<erased_communicator>(ranks), has_type<solo, Parts...>,
                     pointer_to<erased_save_planner>(planner),
                     pointer_to<erased_storage_writer>(writer), store_in(parts)});
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/run_save.ipp>
#endif

#endif
