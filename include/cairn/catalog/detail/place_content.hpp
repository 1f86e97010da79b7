// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_PLACE_CONTENT_HPP
#define CAIRN_CATALOG_DETAIL_PLACE_CONTENT_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/committed.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Whether a place has no objects but had some, or has a name that a `checkpointer` gives:
/// otherwise it may belong to another program.
template <ObjectStore Store>
bool is_left_empty(Store& place, std::string_view id, bool had_objects) {
    if (!place.list().empty()) return false;
    return had_objects || is_step_name(id);
}

/// Shows the time of a place's storage, by an intent that lists nothing and exists for the lifetime
/// of this.
template <ObjectStore Store>
class storage_clock {
public:
    explicit storage_clock(Store& place) : place_(place) {
        intent_.save_id = new_save_id();
        intent_.began = save_intent::now();
        intent_.owner = record_owner::this_one();
        running_.emplace(intent_.save_id);
        name_ = intent_name(intent_.save_id);
        place_.publish(name_, intent_.encode(), std::nullopt);
    }
    storage_clock(storage_clock&&) = delete;
    ~storage_clock() {
        try {
            place_.remove(name_);
        } catch (...) {  // others remove it when this process has ended
        }
    }
    const std::string& name() const noexcept { return name_; }

private:
    Store& place_;
    save_intent intent_{};
    std::optional<running_save> running_{};
    std::string name_{};
};

/// Removes what ended saves and removals have left in one place. Nothing is removed if there is a
/// checkpoint whose metadata does not say which files it has.
/// @throws error for such a checkpoint
template <ObjectStore Store>
void collect_leftovers(Store& place, std::vector<std::string>& warnings,
                       cairn::activity* activity) {
    leftovers<Store> rest(place, {}, activity);
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
    (void)rest.sync();
    for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
}

}  // namespace cairn::detail

#endif
