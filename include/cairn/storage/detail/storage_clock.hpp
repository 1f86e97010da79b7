// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_STORAGE_CLOCK_HPP
#define CAIRN_STORAGE_DETAIL_STORAGE_CLOCK_HPP

#include <cairn/detail/identity.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::detail {

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
    /// When this was made, in nanoseconds; 0: not known.
    std::int64_t time() const { return modification_times(place_.list()).of(name_); }

private:
    Store& place_;
    save_intent intent_{};
    std::optional<running_save> running_{};
    std::string name_{};
};

}  // namespace cairn::detail

#endif
