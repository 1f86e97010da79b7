// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_RUN_LOAD_HPP
#define CAIRN_LOAD_DETAIL_RUN_LOAD_HPP

#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/load/detail/load_parts.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/parts.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <tuple>
#include <utility>

namespace cairn::detail {

struct load_part_check {
    template <class T>
    static constexpr bool is = LoadPart<T>;
};

/// Adds the default store if one is needed and none was given: in the call that starts a load,
/// because the store remembers the current directory.
CAIRN_DECL void add_default_store(load_parts& parts);
/// Adds default parts in place of those that were not given.
CAIRN_DECL void add_default_parts(load_parts& parts, const load_options& options);

/// Runs a `load_op` on the calling thread.
CAIRN_DECL load_report run_load(flattened_or_error& flat, const checkpoint_id& id,
                                const load_options& options, load_parts parts);

/// The arguments of a load that are parts: held as they were passed, and erased.
template <class... Parts>
class given_load_parts {
    static_assert(count_of<communicator_part, Parts...> <= 1, "load: two communicators");
    static_assert(count_of<load_planner_part, Parts...> <= 1, "load: two planners");
    static_assert(count_of<reader_part, Parts...> + count_of<store_part, Parts...> <= 1,
                  "load: give a StorageReader or an ObjectStore, not both");
    static_assert(count_of<data_plane_part, Parts...> <= 1, "load: two data planes");
    static_assert(count_of<mapping_part, Parts...> <= 1, "load: two mappings");
    using tuple = std::tuple<Parts...>;

public:
    explicit given_load_parts(tuple parts) : parts_(std::move(parts)) {}
    given_load_parts(given_load_parts&&) = delete;

    /// Returns references to the parts held here.
    load_parts erased() {
        load_parts all{pointer_to<erased_communicator>(ranks_),
                       has_type<solo, Parts...>,
                       pointer_to<erased_load_planner>(planner_),
                       pointer_to<erased_storage_reader>(reader_),
                       store_in(parts_),
                       pointer_to<erased_data_plane>(plane_),
                       sinks_in(parts_)};
        all.names = mapping_in(parts_);
        return all;
    }
    tuple& parts() noexcept { return parts_; }
    /// Null if there is none.
    erased_communicator* ranks() noexcept { return pointer_to<erased_communicator>(ranks_); }

private:
    tuple parts_;
    decltype(ref_to<communicator_part, communicator_ref>(std::declval<tuple&>())) ranks_ =
        ref_to<communicator_part, communicator_ref>(parts_);
    decltype(ref_to<load_planner_part, load_planner_ref>(std::declval<tuple&>())) planner_ =
        ref_to<load_planner_part, load_planner_ref>(parts_);
    decltype(ref_to<reader_part, storage_reader_ref>(std::declval<tuple&>())) reader_ =
        ref_to<reader_part, storage_reader_ref>(parts_);
    decltype(ref_to<data_plane_part, data_plane_ref>(std::declval<tuple&>())) plane_ =
        ref_to<data_plane_part, data_plane_ref>(parts_);
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/run_load.ipp>
#endif

#endif
