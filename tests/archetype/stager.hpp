// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_STAGER_HPP
#define CAIRN_TESTS_ARCHETYPE_STAGER_HPP

#include "stingy.hpp"

#include <cairn/memory/stager.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

/// The least that `Stager` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Aligned memory of the heap, and what became of it.
class staging_lease : stingy_part {
public:
    struct counts {
        int held = 0, ended = 0, abandoned = 0;
    };

    staging_lease(std::size_t n, std::shared_ptr<counts> c)
        : stingy_part(0), size_(n), memory_(new(alignment) std::byte[n]), counts_(std::move(c)) {
        ++counts_->held;
    }

    std::span<std::byte> bytes() const { return {memory_.get(), size_}; }
    bool pinned() const { return false; }
    void end_operation() noexcept { give_up(counts_->ended); }
    void abandon() noexcept {
        (void)memory_.release();
        give_up(counts_->abandoned);
    }

private:
    static constexpr std::align_val_t alignment{64};
    struct free_it {
        void operator()(std::byte* p) const { ::operator delete[](p, alignment); }
    };
    void give_up(int& how) {
        memory_.reset();
        --counts_->held;
        ++how;
    }

    std::size_t size_;
    std::unique_ptr<std::byte[], free_it> memory_;
    std::shared_ptr<counts> counts_;
};
static_assert(StagingLease<staging_lease>);

class stager : stingy_part {
public:
    using lease = staging_lease;

    stager() : stingy_part(0) {}

    bool copies(std::string_view fqn) { return fqn != "frozen"; }
    std::uint64_t room() { return 1u << 20; }
    lease take(std::size_t bytes) { return lease(bytes, counts_); }
    void pin_for(const any_memory_space&, device_id) {}

    /// Shared with its leases.
    const std::shared_ptr<staging_lease::counts>& counts() const { return counts_; }

private:
    std::shared_ptr<staging_lease::counts> counts_ = std::make_shared<staging_lease::counts>();
};
static_assert(Stager<stager>);

// Each hides one member: it is missing there, or of another type.
struct lease_immovable : staging_lease {
    lease_immovable(lease_immovable&&) = delete;
};
struct lease_without_bytes : staging_lease {
    void bytes() = delete;
};
struct lease_of_const_bytes : staging_lease {
    std::span<const std::byte> bytes() const;
};
struct lease_bytes_of_mutable : staging_lease {
    std::span<std::byte> bytes();
};
struct lease_without_pinned : staging_lease {
    void pinned() = delete;
};
struct lease_pinned_is_int : staging_lease {
    int pinned() const;
};
struct lease_without_end : staging_lease {
    void end_operation() = delete;
};
struct lease_end_may_throw : staging_lease {
    void end_operation();
};
struct lease_without_abandon : staging_lease {
    void abandon() = delete;
};
struct lease_abandon_may_throw : staging_lease {
    void abandon();
};
static_assert(!StagingLease<lease_immovable> && !StagingLease<lease_without_bytes> &&
              !StagingLease<lease_of_const_bytes> && !StagingLease<lease_bytes_of_mutable> &&
              !StagingLease<lease_without_pinned> && !StagingLease<lease_pinned_is_int> &&
              !StagingLease<lease_without_end> && !StagingLease<lease_end_may_throw> &&
              !StagingLease<lease_without_abandon> && !StagingLease<lease_abandon_may_throw>);

struct stager_immovable : stager {
    stager_immovable(stager_immovable&&) = delete;
};
struct stager_without_lease : stager {
    using lease = int;
};
struct stager_without_copies : stager {
    void copies() = delete;
};
struct stager_copies_is_int : stager {
    int copies(std::string_view);
};
struct stager_without_room : stager {
    void room() = delete;
};
struct stager_room_is_signed : stager {
    std::int64_t room();
};
struct stager_without_take : stager {
    void take() = delete;
};
struct stager_takes_another : stager {
    std::unique_ptr<lease> take(std::size_t);
};
struct stager_without_pin_for : stager {
    void pin_for() = delete;
};
struct stager_pin_for_returns : stager {
    bool pin_for(const any_memory_space&, device_id);
};
static_assert(!Stager<stager_immovable> && !Stager<stager_without_lease> &&
              !Stager<stager_without_copies> && !Stager<stager_copies_is_int> &&
              !Stager<stager_without_room> && !Stager<stager_room_is_signed> &&
              !Stager<stager_without_take> && !Stager<stager_takes_another> &&
              !Stager<stager_without_pin_for> && !Stager<stager_pin_for_returns>);

}  // namespace cairn::archetype

#endif
