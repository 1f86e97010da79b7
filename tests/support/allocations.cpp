// SPDX-License-Identifier: Apache-2.0
// Replaces operator new and delete: see allocations.hpp.
#include "allocations.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

// Signed: what is given back may have been taken before the count began.
std::atomic<bool> counting{false};
std::atomic<bool> met{false};
std::atomic<long long> held{0}, most{0}, taken{0}, allowed{0};

void* take(std::size_t n, std::size_t alignment) noexcept {
    if (counting.load(std::memory_order_relaxed)) {
        if (allowed.load() == 0 ||
            n > static_cast<std::size_t>(std::numeric_limits<long long>::max()) ||
            held.load() + static_cast<long long>(n) > allowed.load()) {
            met = true;
            return nullptr;
        }
    }
    // At least one byte each, each its own; aligned_alloc wants a multiple of the alignment.
    n = std::max<std::size_t>(n, 1);
    auto const rounded = (n + alignment - 1) / alignment * alignment;
    void* const p = alignment <= alignof(std::max_align_t) ? std::malloc(n)
                                                           : std::aligned_alloc(alignment, rounded);
    if (p != nullptr && counting.load(std::memory_order_relaxed)) {
        auto const got = static_cast<long long>(::malloc_usable_size(p));
        taken += got;
        auto const now = held += got;
        for (auto before = most.load(); before < now && !most.compare_exchange_weak(before, now);) {
        }
    }
    return p;
}

void* take_or_throw(std::size_t n, std::size_t alignment) {
    if (void* const p = take(n, alignment)) return p;
    throw std::bad_alloc();
}

void give(void* p) noexcept {
    if (p == nullptr) return;
    if (counting.load(std::memory_order_relaxed))
        held -= static_cast<long long>(::malloc_usable_size(p));
    std::free(p);
}

}  // namespace

namespace support {

allocations::allocations(std::size_t limit) {
    held = most = taken = 0;
    met = false;
    allowed = static_cast<long long>(
        std::min<std::size_t>(limit, std::numeric_limits<long long>::max() / 2));
    counting = true;
}
allocations::~allocations() {
    counting = false;
}
std::size_t allocations::peak() const noexcept {
    return static_cast<std::size_t>(most.load());
}
std::size_t allocations::total() const noexcept {
    return static_cast<std::size_t>(taken.load());
}
bool allocations::exceeded() const noexcept {
    return met;
}

}  // namespace support

void* operator new(std::size_t n) {
    return take_or_throw(n, 1);
}
void* operator new[](std::size_t n) {
    return take_or_throw(n, 1);
}
void* operator new(std::size_t n, std::align_val_t a) {
    return take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
    return take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
    return take(n, 1);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
    return take(n, 1);
}
void operator delete(void* p) noexcept {
    give(p);
}
void operator delete[](void* p) noexcept {
    give(p);
}
void operator delete(void* p, std::size_t) noexcept {
    give(p);
}
void operator delete[](void* p, std::size_t) noexcept {
    give(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    give(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
    give(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    give(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
    give(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
    give(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
    give(p);
}
