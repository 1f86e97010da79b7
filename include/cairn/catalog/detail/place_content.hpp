// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_PLACE_CONTENT_HPP
#define CAIRN_CATALOG_DETAIL_PLACE_CONTENT_HPP

#include <cairn/activity.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/storage_clock.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Removes what ended saves and removals have left in one place. Nothing is removed if there is a
/// checkpoint whose metadata does not say which files it has.
/// @param again  Whether intents stay for a later call.
/// @throws error for such a checkpoint
template <ObjectStore Store>
void collect_leftovers(Store& place, std::vector<std::string>& warnings, cairn::activity* activity,
                       bool again = false) {
    leftovers<Store> rest(place, {}, activity);
    if (again) rest.keep_intents();
    rest.find({}, {});
    rest.look_at_what_stands();
    std::optional<storage_clock<Store>> clock;
    bool const is_read =
        std::any_of(rest.there().begin(), rest.there().end(),
                    [](auto const& stored) { return is_reading_name(stored.name); });
    if ((rest.is_unsure() || is_read || rest.has_strays()) &&
        rest.attempt([&] { clock.emplace(place); }))
        rest.find(clock->name(), {});
    rest.look_at_what_stands();
    rest.remove_found();
    rest.remove_strays();
    // Removes notices of ended processes.
    rest.attempt([&] { (void)is_being_read(place, {}, clock ? clock->name() : ""); });
    rest.attempt([&] { remove_trials(place); });
    (void)rest.sync();
    for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
}

}  // namespace cairn::detail

#endif
