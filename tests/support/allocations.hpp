// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_ALLOCATIONS_HPP
#define CAIRN_TEST_SUPPORT_ALLOCATIONS_HPP

#include <cstddef>
#include <cstdint>

namespace support {

/// Counts what the whole program takes from `operator new` while it lives, and lets no more than a
/// limit be held at once: beyond it, and always if it is 0, `new` throws `std::bad_alloc`. For
/// programs that link support/allocations.cpp; one at a time.
///
/// The bytes taken in all stand for time: they repeat exactly, which a clock does not.
class allocations {
public:
    explicit allocations(std::size_t limit = ~std::size_t{0});
    allocations(const allocations&) = delete;
    allocations& operator=(const allocations&) = delete;
    ~allocations();

    std::size_t peak() const noexcept;   ///< Most bytes held at once, beyond those held before.
    std::size_t total() const noexcept;  ///< Bytes taken in all, given back or not.
    bool exceeded() const noexcept;      ///< Whether the limit was met.
};

/// Lets one allocation fail: the `nth`, from 0, of those that are made while it lives. For the same
/// programs; one at a time.
class failing_allocation {
public:
    enum class of { this_thread, other_threads };
    failing_allocation(of whose, std::uint64_t nth);
    failing_allocation(const failing_allocation&) = delete;
    failing_allocation& operator=(const failing_allocation&) = delete;
    ~failing_allocation();

    bool hit() const noexcept;  ///< Whether there were so many.
};

}  // namespace support

#endif
