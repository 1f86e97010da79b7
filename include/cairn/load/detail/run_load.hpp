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

inline constexpr auto load_part_check = []<class T>(of_type<T>) { return LoadPart<T>; };

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
        return {{ranks_.get(), has_type<solo, Parts...>, store_in(parts_), sinks_in(parts_),
                 mapping_in(parts_)},
                planner_.get(),
                reader_.get(),
                plane_.get()};
    }
    tuple& parts() noexcept { return parts_; }
    /// Null if there is none.
    erased_communicator* ranks() noexcept { return ranks_.get(); }

private:
    tuple parts_;
    part_ref<communicator_part, communicator_ref, Parts...> ranks_{parts_};
    part_ref<load_planner_part, load_planner_ref, Parts...> planner_{parts_};
    part_ref<reader_part, storage_reader_ref, Parts...> reader_{parts_};
    part_ref<data_plane_part, data_plane_ref, Parts...> plane_{parts_};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/run_load.ipp>
#endif

#endif
