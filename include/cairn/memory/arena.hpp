// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_ARENA_HPP
#define CAIRN_MEMORY_ARENA_HPP

#include <cairn/error.hpp>
#include <cairn/memory/arena_core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn {

/// A block of an arena; its destructor gives it back, from any thread, in any order. It keeps the
/// memory mapped even if the arena is destroyed first.
class arena_block {
public:
    /// No bytes.
    arena_block() = default;
    arena_block(arena_block&& other) noexcept { swap(other); }
    arena_block& operator=(arena_block&& other) noexcept {
        arena_block(std::move(other)).swap(*this);
        return *this;
    }
    ~arena_block() {
        if (core_) core_->give_back(at_, size_);
    }

    /// As many as were asked for, at a multiple of @ref arena_alignment. The rest of the last 4096
    /// bytes belongs to the block too, but is out of bounds for AddressSanitizer.
    std::span<std::byte> bytes() const noexcept { return {at_, size_}; }
    /// Whether devices can copy from and to it at full speed.
    bool pinned() const noexcept { return pinned_; }
    /// Gives the block up without giving it back: something that cannot be stopped still uses it.
    /// Its bytes are neither handed out again nor unmapped while the process lives, and go on
    /// counting against the budget.
    void abandon() noexcept {
        if (auto const core = std::move(core_)) core->abandon(at_, size_);
        *this = {};
    }

private:
    friend class arena;
    arena_block(std::shared_ptr<detail::arena_core> core, std::byte* at, std::size_t size,
                bool pinned) noexcept
        : core_(std::move(core)), at_(at), size_(size), pinned_(pinned) {}
    void swap(arena_block& other) noexcept {
        std::swap(core_, other.core_);
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
        std::swap(pinned_, other.pinned_);
    }

    std::shared_ptr<detail::arena_core> core_{};
    std::byte* at_ = nullptr;
    std::size_t size_ = 0;
    bool pinned_ = false;
};

/// Staging memory of one rank: mapped once, in huge pages, with every page present, pinned where
/// devices copy from and to it, and bounded.
///
/// It allocates from slabs, best fit. Blocks are few and large where a file's layout is staged, but
/// 10^5 of them cost no more each. Memory that is free in small parts is whole again when the
/// blocks between them are given back; a caller that waits for its own blocks therefore always gets
/// what the budget allows.
///
/// **Threads**: every function may be called from several threads at the same time. Mapping a slab
/// takes long; blocks can be given back meanwhile.
/// **Fork**: a child process gets none of the memory. There the arena is only good for destruction;
/// blocks too, and their bytes are gone.
class arena {
public:
    explicit arena(const arena_options& o = {}) : core_(std::make_shared<detail::arena_core>(o)) {}

    /// Slabs, those mapped already too, are pinned for devices of this space from now on. What
    /// cannot be pinned stays pageable, which is no error: see `arena_stats::pin_failure`. Call it
    /// before a graph capture begins, and before `reserve`.
    /// @param space  If it only refers to the caller's, that outlives the arena and its blocks.
    /// @param d      The device that the memory is for, one of them where there are several.
    void pin_for(const any_memory_space& space, device_id d) { here().pin_for(space, d); }

    /// What `reserve(bytes)` would take from the system: to be reported before it is taken.
    arena_need need(std::uint64_t bytes) const { return here().need(bytes); }
    /// Maps memory, and pins it, until `bytes` in all are mapped or the budget is used up. Touches
    /// every page, so that memory is local to the calling thread; later use faults no page in.
    /// @throws error with the system's code when there is not so much memory
    void reserve(std::uint64_t bytes) { here().reserve(bytes); }

    /// A block, uninitialised; nothing when blocks have to be given back first. Maps another slab
    /// where none has room and the budget allows it.
    /// @throws error errc::invalid_argument when the block is larger than the budget, so that
    /// waiting would not help: split it; with the system's code when memory cannot be mapped. The
    /// arena can be used further.
    std::optional<arena_block> try_allocate(std::size_t bytes) {
        auto& core = here();
        if (bytes > core.budget())
            throw error(errc::invalid_argument,
                        {.expected = "a block of at most " + std::to_string(core.budget()) +
                                     " bytes, the memory budget",
                         .found = std::to_string(bytes) + " bytes",
                         .remedy = "stage in smaller pieces, or raise the budget"});
        if (bytes == 0) return arena_block();
        auto const p = core.take(bytes);
        if (!p) return std::nullopt;
        return arena_block(core_, p->at, bytes, p->pinned);
    }

    /// Returns slabs to the system of which no block is in use.
    void release_unused() noexcept { core_->release_unused(); }
    /// An operation that used the arena has ended: without `arena_options::persist`, returns what
    /// is not in use to the system.
    void operation_ended() noexcept {
        if (!core_->persists()) release_unused();
    }

    arena_stats stats() const { return here().stats(); }

private:
    detail::arena_core& here() const {
        if (!core_->in_this_process())
            throw error(errc::invalid_argument, {.expected = "an arena of this process",
                                                 .found = "one that was made before fork()",
                                                 .remedy = "make another in the child process"});
        return *core_;
    }

    std::shared_ptr<detail::arena_core> core_;
};

}  // namespace cairn

#endif
