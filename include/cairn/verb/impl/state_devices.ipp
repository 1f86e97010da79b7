// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_IMPL_STATE_DEVICES_IPP
#define CAIRN_VERB_IMPL_STATE_DEVICES_IPP

#include <cairn/verb/detail/state_devices.hpp>

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <new>

namespace cairn::detail {

/// Returns the addresses of a view's elements. Not all views have been checked: strides may be any.
inline std::pair<std::uintptr_t, std::uintptr_t> addresses_of(const const_tensor_view& v) {
    auto const size = static_cast<std::uintptr_t>(size_of(v.type));
    auto first = reinterpret_cast<std::uintptr_t>(v.data), last = first;
    for (std::size_t d = 0; d < v.shape.size(); ++d) {
        auto const reach = static_cast<std::uintptr_t>(v.shape[d] - 1) *
                           static_cast<std::uintptr_t>(v.strides[d]) * size;
        (v.strides[d] < 0 ? first : last) += reach;
    }
    return {first, last + size};
}

CAIRN_DECL void rethrow_naming(device_id d, const std::string& fqn) {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const error& e) {
        throw completed(e, {.fqn = fqn});
    } catch (...) {
        throw error(errc::device_failed,
                    {.fqn = fqn,
                     .expected = "the memory space of " + to_string(d) + " to copy",
                     .found = text_of(std::current_exception())});
    }
}

CAIRN_DECL std::shared_ptr<state_devices> make_state_devices() {
    return std::make_shared<state_devices>();
}
CAIRN_DECL std::shared_ptr<state_devices> no_memory_spaces(const flat_state& state) {
    auto devices = make_state_devices();
    devices->fence(state);
    return devices;
}

CAIRN_DECL void state_devices::add(any_memory_space s, bool kept) {
    spaces_.add(std::move(s));
    kept_ = kept_ && kept;
}
CAIRN_DECL void state_devices::fence(const flat_state& state) noexcept {
    try {
        for (auto const& leaf : state)
            if (auto const* t = leaf.tensor())
                for (auto const& s : t->shards) note(s.view, leaf.fqn);
        for (auto& d : devices_) {
            d.naming(d.fqn, [&] {
                d.queue.fence(d.all);
                d.fenced = d.queue.record();
            });
            d.all = {};
            auto& r = d.ranges;
            std::sort(r.begin(), r.end());
            std::size_t kept = 0;
            for (auto const& next : r) {
                if (next.first <= r[kept].second)
                    r[kept].second = std::max(r[kept].second, next.second);
                else
                    r[++kept] = next;
            }
            r.resize(kept + 1);
        }
    } catch (...) {
        refused_ = std::current_exception();
    }
}
CAIRN_DECL void state_devices::note(const const_tensor_view& v, const std::string& fqn) {
    // The planner refuses an invalid view.
    if (is_host(v.device.kind) || v.data == nullptr || v.strides.size() != v.shape.size() ||
        std::any_of(v.shape.begin(), v.shape.end(), [](auto n) { return n <= 0; }))
        return;
    auto d = std::find_if(devices_.begin(), devices_.end(),
                          [&](auto const& known) { return known.queue.device() == v.device; });
    if (d == devices_.end()) {
        auto* const space = spaces_.find(v.device);
        if (space == nullptr) {
            try {
                if (!missing_) (void)spaces_.serving(v.device, fqn);
            } catch (...) {
                missing_ = std::current_exception();
            }
            return;
        }
        try {
            devices_.push_back({space->open(v.device), *space, kept_, fqn});
        } catch (...) {
            rethrow_naming(v.device, fqn);
        }
        d = devices_.end() - 1;
    }
    d->all.push_back(v);
    d->ranges.push_back(addresses_of(v));
}

CAIRN_DECL bool state_devices::serves(const const_tensor_view& v) const {
    return is_host(v.device.kind) ||
           std::any_of(devices_.begin(), devices_.end(),
                       [&](auto const& d) { return d.queue.device() == v.device; });
}
CAIRN_DECL state_device* state_devices::of(const const_tensor_view& v, const std::string& fqn) {
    if (is_host(v.device.kind) || v.empty()) return nullptr;
    auto const [first, last] = addresses_of(v);
    for (auto& d : devices_) {
        if (d.queue.device() != v.device) continue;
        auto const after =
            std::upper_bound(d.ranges.begin(), d.ranges.end(), first,
                             [](std::uintptr_t a, auto const& range) { return a < range.first; });
        if (after != d.ranges.begin() && last <= (after - 1)->second) return &d;
    }
    (void)spaces_.serving(v.device, fqn);
    throw error(errc::unsupported,
                {.fqn = fqn,
                 .expected = "host memory, or memory of the state that was passed",
                 .found = "other memory of " + to_string(v.device),
                 .remedy = "copies are ordered after the work on the tensors that the state has "
                           "when the call is made: let the planner return those, or host memory"});
}

}  // namespace cairn::detail

#endif
