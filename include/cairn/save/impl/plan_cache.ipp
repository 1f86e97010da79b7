// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_PLAN_CACHE_IPP
#define CAIRN_SAVE_IMPL_PLAN_CACHE_IPP

#include <cairn/save/plan_cache.hpp>

#include <cairn/save/detail/kept_plan.hpp>

#include <memory>

namespace cairn {

CAIRN_DECL plan_cache::plan_cache() : slot_(std::make_shared<detail::plan_slot>()) {}
CAIRN_DECL void plan_cache::clear() {
    slot_->clear();
}
CAIRN_DECL bool plan_cache::empty() const {
    return slot_->kept() == nullptr;
}

}  // namespace cairn

#endif
