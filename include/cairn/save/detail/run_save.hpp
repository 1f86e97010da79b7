// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_RUN_SAVE_HPP
#define CAIRN_SAVE_DETAIL_RUN_SAVE_HPP

#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/save/detail/save_parts.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/save/plan_cache.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Adds the default store if one is needed and none was given: in the call that starts a save,
/// because the store remembers the current directory.
CAIRN_DECL void add_default_store(save_parts& parts);
/// Adds default parts in place of those that were not given.
CAIRN_DECL void add_default_parts(save_parts& parts, const save_options& options);

/// Notes the content of the tensors if their changes are to be detected. Called inside the
/// initiating call of the verb, with the devices.
CAIRN_DECL void note_content(save_parts& parts, const flat_state& state,
                             const save_options& options);

/// Runs a `save_op` on the calling thread.
CAIRN_DECL save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                                const save_options& options, save_parts parts);

inline constexpr auto plan_cache_part = []<class T>(of_type<T>) {
    return std::is_same_v<T, plan_cache>;
};
/// Returns the place of kept plans among the parts; null if there is none.
template <class... Parts>
std::shared_ptr<plan_slot> plans_in([[maybe_unused]] const std::tuple<Parts...>& parts) {
    constexpr auto i = index_of<plan_cache_part, Parts...>();
    if constexpr (i < sizeof...(Parts))
        return std::get<i>(parts).slot();
    else
        return nullptr;
}

/// The arguments of a save that are parts: held as they were passed, and erased.
template <class... Parts>
class given_save_parts {
    static_assert(count_of<communicator_part, Parts...> <= 1, "save: two communicators");
    static_assert(count_of<save_planner_part, Parts...> <= 1, "save: two planners");
    static_assert(count_of<writer_part, Parts...> + count_of<store_part, Parts...> <= 1,
                  "save: give a StorageWriter or an ObjectStore, not both");
    static_assert(count_of<plan_cache_part, Parts...> <= 1, "save: two plan caches");
    static_assert(count_of<mapping_part, Parts...> <= 1, "save: two mappings");
    using tuple = std::tuple<Parts...>;

public:
    explicit given_save_parts(tuple parts) : parts_(std::move(parts)) {}
    given_save_parts(given_save_parts&&) = delete;

    /// Returns references to the parts held here.
    save_parts erased() {
        return {{ranks_.get(), has_type<solo, Parts...>, store_in(parts_), sinks_in(parts_),
                 mapping_in(parts_)},
                planner_.get(),
                writer_.get(),
                plans_in(parts_)};
    }
    tuple& parts() noexcept { return parts_; }
    /// Null if there is none.
    erased_communicator* ranks() noexcept { return ranks_.get(); }

private:
    tuple parts_;
    part_ref<communicator_part, communicator_ref, Parts...> ranks_{parts_};
    part_ref<save_planner_part, save_planner_ref, Parts...> planner_{parts_};
    part_ref<writer_part, storage_writer_ref, Parts...> writer_{parts_};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/run_save.ipp>
#endif

#endif
