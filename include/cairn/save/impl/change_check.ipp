// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_CHANGE_CHECK_IPP
#define CAIRN_SAVE_IMPL_CHANGE_CHECK_IPP

#include <cairn/save/detail/change_check.hpp>

#include <cairn/error.hpp>
#include <cairn/save/detail/host_copy_of.hpp>
#include <cairn/save/detail/replica_hash.hpp>
#include <cairn/state/detail/copy_leaf.hpp>

#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL change_check::change_check(const flat_state& state,
                                      std::shared_ptr<state_devices> devices,
                                      deadline until) noexcept
    : devices_(std::move(devices)), until_(until) {
    try {
        for (auto const& leaf : state) {
            auto const* const t = leaf.tensor();
            if (t == nullptr) continue;
            check_shards(leaf.fqn, *t);
            for (auto const& s : t->shards) {
                const_tensor_view const v = s.view;
                if (v.empty() || !devices_->serves(v)) continue;
                auto const [at, first] = at_call_.try_emplace(place_of(v), 0);
                if (first) at->second = hash_of(v, leaf.fqn);
            }
        }
    } catch (...) {
        failure_ = std::current_exception();
    }
}

CAIRN_DECL void change_check::expect(const std::vector<write_item>& items,
                                     std::span<const item_data> data) {
    if (failure_) std::rethrow_exception(failure_);
    expected_.assign(data.size(), 0);
    for (std::size_t i = 0; i < data.size(); ++i) {
        auto const* const v = std::get_if<const_tensor_view>(&data[i]);
        if (v == nullptr || v->empty()) continue;
        auto const known = at_call_.find(place_of(*v));
        expected_[i] = known != at_call_.end() ? known->second : hash_of(*v, items[i].fqn);
    }
}

CAIRN_DECL void change_check::compare(const write_item& item, std::size_t index,
                                      const item_data& data) noexcept {
    try {
        auto const* const v = std::get_if<const_tensor_view>(&data);
        if (v == nullptr || v->empty()) return;
        if (hash_replica(*v, replica_sample::all()) == expected_[index]) return;
        throw error(errc::state_changed,
                    {.fqn = item.fqn,
                     .expected = "the content that it had when the save was called",
                     .found = "different content",
                     .remedy = "change tensors only once the save is staged (frozen ones, once it "
                               "has ended); with a checkpointer's overlap, call before_update"});
    } catch (...) {
        std::lock_guard const lock(m_);
        if (!failure_) failure_ = std::current_exception();
    }
}
CAIRN_DECL void change_check::finish() const {
    std::lock_guard const lock(m_);
    if (failure_) std::rethrow_exception(failure_);
}

CAIRN_DECL std::uint64_t change_check::hash_of(const const_tensor_view& v, const std::string& fqn) {
    auto const hash = [](const const_tensor_view& all) {
        return hash_replica(all, replica_sample::all());
    };
    auto* const d = devices_->of(v, fqn);
    if (d == nullptr) return hash(v);
    return d->naming(fqn, [&] { return with_host_copy_of(v, *d, until_, hash); });
}

}  // namespace cairn::detail

#endif
