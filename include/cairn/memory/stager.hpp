// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_STAGER_HPP
#define CAIRN_MEMORY_STAGER_HPP

#include <cairn/memory/any_memory_space.hpp>
#include <cairn/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cairn {

/// Staging memory that is held until it is given back.
///
/// Given `l` of type `L&` and `c` of type `const L&`:
///
/// | Expression          | Type                   | Meaning                                       |
/// |---------------------|------------------------|-----------------------------------------------|
/// | `c.bytes()`         | `std::span<std::byte>` | the memory, used by nothing else              |
/// | `c.pinned()`        | `bool`                 | whether devices copy from and to it at full speed |
/// | `l.end_operation()` | `void`, `noexcept`     | gives the memory back: the operation that took it has ended |
/// | `l.abandon()`       | `void`, `noexcept`     | gives the memory up: a device may still use it |
///
/// **Semantics**
/// - *Giving back*: exactly one of `end_operation`, `abandon` and the destructor of a lease that
///   has memory; any thread, in any order. `bytes()` then has no meaning.
/// - *abandon*: the memory stays mapped, and pinned if it is, while the process lives, and is not
///   handed out again.
/// - *Move*: a lease that was moved from holds nothing.
template <class L>
concept StagingLease = std::movable<L> && requires(L& l, const L& c) {
    { c.bytes() } -> std::same_as<std::span<std::byte>>;
    { c.pinned() } -> std::same_as<bool>;
    { l.end_operation() } noexcept -> std::same_as<void>;
    { l.abandon() } noexcept -> std::same_as<void>;
};

/// Provides the memory to which a save in the background copies tensors, and decides which tensors
/// are copied: a part of `async_save`; DCP's `AsyncStager`.
///
/// Given `s` of type `S&`, `fqn` a `std::string_view`, `bytes` a `std::size_t`, `space` a
/// `const any_memory_space&` and `d` a `device_id`:
///
/// | Expression            | Type                 | Meaning                                        |
/// |-----------------------|----------------------|------------------------------------------------|
/// | `typename S::lease`   | models `StagingLease`|                                                |
/// | `s.copies(fqn)`       | `bool`               | whether this tensor is copied; otherwise it is *frozen* |
/// | `s.room()`            | `std::uint64_t`      | the bytes that `take` has at the moment        |
/// | `s.take(bytes)`       | `typename S::lease`  | memory of that size, aligned to 64 bytes       |
/// | `s.pin_for(space, d)` | `void`               | memory that is taken from now on is to be pinned for copies from and to `d` |
///
/// **Semantics**
/// - *Frozen*: a tensor in host memory that is not copied is written from its own memory. It must
///   neither change nor move until the save has ended. Tensors on devices are copied to the host
///   whether they are frozen or not.
/// - *room*: tensors in host memory for which there is none are written from their own memory,
///   before the save is staged. Copies from devices need all of theirs.
/// - *take*: throws @ref error with @ref errc::invalid_argument if it has less, and with any other
///   code if it cannot get it: the save then fails on all ranks. `bytes` is not 0. It does not
///   wait.
/// - *pin_for*: best effort; memory that could not be pinned says so (`lease::pinned`). The space
///   outlives the stager and its leases.
/// - *Threads*: calls for different saves may come from several threads at the same time; `copies`
///   may be called by any of them.
/// - *Lifetime*: leases may outlive the stager if it is one of the library's. The handle of a save
///   with any other stager waits for the end of the save.
///
/// Not promised: that the memory is taken at once, or given back in the order of taking.
/// **Models**: `staging_arena`, `frozen_tensors`. **Archetype**: `archetype::stager`.
/// **Conformance**: `cairn/testing/stager.hpp`.
template <class S>
concept Stager = std::movable<S> && StagingLease<typename S::lease> &&
                 requires(S& s, std::string_view fqn, std::size_t bytes,
                          const any_memory_space& space, device_id d) {
                     { s.copies(fqn) } -> std::same_as<bool>;
                     { s.room() } -> std::same_as<std::uint64_t>;
                     { s.take(bytes) } -> std::same_as<typename S::lease>;
                     { s.pin_for(space, d) } -> std::same_as<void>;
                 };

namespace detail {

/// A lease of any stager. Empty after a move.
class erased_lease {
    struct base {
        virtual ~base() = default;
        virtual std::span<std::byte> bytes() const = 0;
        virtual bool pinned() const = 0;
        virtual void end_operation() noexcept = 0;
        virtual void abandon() noexcept = 0;
    };
    template <class L>
    struct model final : base {
        explicit model(L l) : lease(std::move(l)) {}
        std::span<std::byte> bytes() const override { return lease.bytes(); }
        bool pinned() const override { return lease.pinned(); }
        void end_operation() noexcept override { lease.end_operation(); }
        void abandon() noexcept override { lease.abandon(); }
        L lease;
    };

public:
    erased_lease() = default;
    template <class L>
        requires(!std::is_same_v<L, erased_lease>) && StagingLease<L>
    explicit erased_lease(L l) : of_(std::make_unique<model<L>>(std::move(l))) {}

    std::span<std::byte> bytes() const { return of_ ? of_->bytes() : std::span<std::byte>(); }
    bool pinned() const { return of_ && of_->pinned(); }
    void end_operation() noexcept {
        if (auto const l = std::move(of_)) l->end_operation();
    }
    void abandon() noexcept {
        if (auto const l = std::move(of_)) l->abandon();
    }

private:
    std::unique_ptr<base> of_{};
};

/// A stager whose type only the verb knew.
class erased_stager {
public:
    virtual ~erased_stager() = default;
    virtual bool copies(std::string_view fqn) = 0;
    virtual std::uint64_t room() = 0;
    virtual erased_lease take(std::size_t bytes) = 0;
    virtual void pin_for(const any_memory_space& space, device_id d) = 0;
};
template <Stager S>
class stager_ref final : public erased_stager {
public:
    /// @param s  Outlives this.
    explicit stager_ref(S& s) : s_(std::addressof(s)) {}
    bool copies(std::string_view fqn) override { return s_->copies(fqn); }
    std::uint64_t room() override { return s_->room(); }
    erased_lease take(std::size_t bytes) override { return erased_lease(s_->take(bytes)); }
    void pin_for(const any_memory_space& space, device_id d) override { s_->pin_for(space, d); }

private:
    S* s_;
};

}  // namespace detail
}  // namespace cairn

#endif
