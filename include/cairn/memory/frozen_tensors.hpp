// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_FROZEN_TENSORS_HPP
#define CAIRN_MEMORY_FROZEN_TENSORS_HPP

#include <cairn/memory/arena.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// A stager for tensors that do not change while they are saved: they are written from their own
/// memory, so that no copy takes memory or time.
///
/// A model of @ref Stager. The caller promises that a frozen tensor neither changes nor moves until
/// the save has ended; `save_options::detect_changes` checks that. The `pending_save` of such a
/// save therefore waits in its destructor for the end of the save. Tensors on devices are copied to
/// host memory nevertheless.
///
/// **Threads**: `which` is called on the thread of the save.
class frozen_tensors {
public:
    using lease = arena_lease;

    /// All tensors are frozen; those on devices are copied to memory of this save only.
    frozen_tensors() = default;
    /// @param which  Whether a tensor of that name is frozen, e.g. part of a base model. The others
    ///               are copied to memory of this save only.
    explicit frozen_tensors(std::function<bool(std::string_view fqn)> which)
        : which_(std::move(which)) {}
    /// @param rest  For copies of the others. It must live until the save is staged.
    frozen_tensors(std::function<bool(std::string_view fqn)> which, staging_arena& rest)
        : which_(std::move(which)), rest_(std::addressof(rest)) {}

    bool copies(std::string_view fqn) const { return which_ && !which_(fqn); }
    std::uint64_t room() const {
        return rest_ != nullptr ? rest_->room() : arena_options::no_limit;
    }
    lease take(std::size_t bytes) {
        if (rest_ != nullptr) return rest_->take(bytes);
        staging_arena once({.persist = false, .slab_bytes = bytes});
        {
            std::lock_guard const lock(by_->m);
            for (auto const& [space, d] : by_->spaces) once.pin_for(space, d);
        }
        return once.take(bytes);  // outlives it
    }
    void pin_for(const any_memory_space& space, device_id d) {
        if (rest_ != nullptr) return rest_->pin_for(space, d);
        std::lock_guard const lock(by_->m);
        for (auto& known : by_->spaces) {
            if (known.first.type() != space.type()) continue;
            known = {space, d};  // as an arena does
            return;
        }
        by_->spaces.emplace_back(space, d);
    }

private:
    /// Several saves may use a stager at once.
    struct pinning {
        std::mutex m{};
        std::vector<std::pair<any_memory_space, device_id>> spaces{};
    };

    std::function<bool(std::string_view)> which_{};
    staging_arena* rest_ = nullptr;
    std::shared_ptr<pinning> by_ = std::make_shared<pinning>();
};

}  // namespace cairn

#endif
