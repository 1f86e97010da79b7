// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_ARENA_HPP
#define CAIRN_MEMORY_ARENA_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/arena_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace cairn {
namespace detail {

class arena_core;

}  // namespace detail

/// Bytes of an arena, held until the destructor gives them back: from any thread, in any order. It
/// keeps the memory mapped even if the arena is destroyed first.
class arena_lease {
public:
    /// No bytes.
    arena_lease() = default;
    arena_lease(arena_lease&& other) noexcept { swap(other); }
    arena_lease& operator=(arena_lease&& other) noexcept {
        arena_lease(std::move(other)).swap(*this);
        return *this;
    }
    ~arena_lease();

    /// The requested number of bytes, at a multiple of `arena_options::alignment`. The bytes after
    /// them, up to the next multiple, are unused, and out of bounds for AddressSanitizer.
    std::span<std::byte> bytes() const noexcept { return {at_, size_}; }
    /// True if devices can copy from and to it at full speed.
    bool pinned() const noexcept { return pinned_; }
    /// Abandons the bytes instead of giving them back, because something that cannot be stopped
    /// still uses them. They are neither handed out again nor unmapped while the process lives, and
    /// continue to count against the budget.
    void abandon() noexcept;
    /// Gives the bytes back as the last ones of an operation: `staging_arena::operation_ended` for
    /// code that has the lease but not the arena.
    void end_operation() noexcept;

private:
    friend class staging_arena;
    arena_lease(std::shared_ptr<detail::arena_core> core, std::byte* at, std::size_t size,
                bool pinned) noexcept
        : core_(std::move(core)), at_(at), size_(size), pinned_(pinned) {}
    void swap(arena_lease& other) noexcept {
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

/// Staging memory of one rank: mapped once, in huge pages, every page present, pinned if devices
/// copy from and to it, and bounded. A model of @ref Stager.
///
/// It allocates from slabs, best fit. Leases are meant to be few and large, but each of 10^5 leases
/// costs no more. Free pieces of memory are merged when the leases between them are given back; a
/// caller that waits for its own leases therefore always gets what the budget allows.
///
/// **Threads**: every function may be called from several threads at the same time. Mapping a slab
/// takes long; leases can be taken and given back in the meantime.
/// **Fork**: a child process does not inherit the memory. There, an arena and its leases can only
/// be destroyed.
class staging_arena {
public:
    using lease = arena_lease;

    /// @throws error invalid_argument for an alignment that is not allowed
    explicit staging_arena(const arena_options& o = {});
    /// A moved-from arena can only be destroyed or assigned to.
    staging_arena(staging_arena&&) = default;
    staging_arena& operator=(staging_arena&&) = default;

    /// From now on slabs, including those mapped already, are pinned for devices of this space.
    /// Slabs that cannot be pinned stay pageable, which is not an error: see `reserve_result` and
    /// `arena_stats`. Call it before a graph capture begins, and before `reserve`. Of spaces of one
    /// type, the latest pins what is mapped from then on.
    /// @param space  If it refers to the caller's, that must outlive the arena and its leases.
    /// @param d      The device that the memory is for, one of them if there are several.
    void pin_for(const any_memory_space& space, device_id d);

    /// Returns what `reserve(bytes)` would take from the system.
    arena_need need(std::uint64_t bytes) const;
    /// Maps and pins memory, so that one lease of `bytes` needs no more, as far as the budget
    /// allows. Every page is touched: later use causes no page faults. If a slab is mapped for
    /// that, unused slabs are returned to the system.
    /// @throws error with the system's code if there is not that much memory
    reserve_result reserve(std::uint64_t bytes);

    /// Returns uninitialised bytes. Maps another slab if no slab has room and the budget allows it.
    /// @throws error invalid_argument if the budget does not allow it; with the system's code if
    /// memory cannot be mapped. Both name the bytes; the arena remains usable.
    lease take(std::size_t bytes);
    /// As above; returns nothing if leases have to be given back first.
    /// @throws error invalid_argument if the lease is larger than the budget, so that waiting would
    /// not help; with the system's code if memory cannot be mapped
    std::optional<lease> try_take(std::size_t bytes);

    /// Returns true: an arena takes every tensor (@ref Stager).
    static bool copies(std::string_view) noexcept { return true; }
    /// Returns the bytes that the budget leaves for leases.
    std::uint64_t room() const;
    /// Returns the bytes mapped, in use or not.
    std::uint64_t bytes_held() const;
    /// Returns unused slabs to the system.
    void release_unused() noexcept;
    /// Called when an operation that used the arena has ended: without `arena_options::persist`,
    /// returns unused memory to the system.
    void operation_ended() noexcept;

    arena_stats stats() const;

private:
    detail::arena_core& here() const;

    std::shared_ptr<detail::arena_core> core_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/memory/impl/arena.ipp>
#endif

#endif
