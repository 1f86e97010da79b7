// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_IMPL_ARENA_IPP
#define CAIRN_MEMORY_IMPL_ARENA_IPP

#include <cairn/memory/arena.hpp>

#include <cairn/error.hpp>
#include <cairn/memory/detail/arena_core.hpp>

#include <string>

namespace cairn {

CAIRN_DECL arena_lease::~arena_lease() {
    if (core_) core_->give_back(at_, size_);
}

CAIRN_DECL void arena_lease::abandon() noexcept {
    if (auto const core = std::move(core_)) core->abandon(at_, size_);
    *this = {};
}

CAIRN_DECL staging_arena::staging_arena(const arena_options& o)
    : core_(std::make_shared<detail::arena_core>(o)) {}

CAIRN_DECL void staging_arena::pin_for(const any_memory_space& space, device_id d) {
    here().pin_for(space, d);
}

CAIRN_DECL arena_need staging_arena::need(std::uint64_t bytes) const {
    return here().need(bytes);
}

CAIRN_DECL reserve_result staging_arena::reserve(std::uint64_t bytes) {
    return here().reserve(bytes);
}

CAIRN_DECL arena_lease staging_arena::take(std::size_t bytes) {
    if (auto l = try_take(bytes)) return std::move(*l);
    auto const s = here().stats();
    throw error(errc::invalid_argument,
                {.expected = "room for " + std::to_string(bytes) + " bytes of staging memory",
                 .found = std::to_string(s.bytes_in_use) + " bytes in use of a budget of " +
                          std::to_string(here().budget()),
                 .remedy = "wait until memory in use is given back, or raise the memory budget"});
}

CAIRN_DECL std::optional<arena_lease> staging_arena::try_take(std::size_t bytes) {
    auto& core = here();
    if (bytes > core.budget())
        throw error(errc::invalid_argument,
                    {.expected = "at most " + std::to_string(core.budget()) +
                                 " bytes of staging memory at once, the memory budget",
                     .found = std::to_string(bytes) + " bytes",
                     .remedy = "stage in smaller pieces, or raise the memory budget"});
    if (bytes == 0) return arena_lease();
    auto const p = core.take(bytes);
    if (!p) return std::nullopt;
    return arena_lease(core_, p->at, bytes, p->pinned);
}

CAIRN_DECL std::uint64_t staging_arena::room() const {
    return here().budget() - here().stats().bytes_in_use;
}

CAIRN_DECL std::uint64_t staging_arena::bytes_held() const {
    return here().bytes_held();
}

CAIRN_DECL void staging_arena::release_unused() noexcept {
    core_->release_unused();
}

CAIRN_DECL void arena_lease::end_operation() noexcept {
    auto const core = core_;
    *this = {};
    if (core && !core->persists()) core->release_unused();
}
CAIRN_DECL void staging_arena::operation_ended() noexcept {
    if (!core_->persists()) release_unused();
}

CAIRN_DECL arena_stats staging_arena::stats() const {
    return here().stats();
}

CAIRN_DECL detail::arena_core& staging_arena::here() const {
    if (!core_->in_this_process())
        throw error(errc::invalid_argument, {.expected = "an arena of this process",
                                             .found = "one made before fork()",
                                             .remedy = "make a new one in the child process"});
    return *core_;
}

}  // namespace cairn

#endif
