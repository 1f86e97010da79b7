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
std::atomic<bool> counts_now{false};
std::atomic<bool> met{false};
std::atomic<long long> held{0}, most{0}, taken{0}, allowed{0};

// Of a `failing_allocation`.
using whose = support::failing_allocation::of;
std::atomic<bool> one_fails{false};
std::atomic<whose> fails_of{whose::this_thread};
std::atomic<long long> still_succeed{0};
thread_local bool made_it = false;  // on the thread that has made the object

bool fails() noexcept {
    if (!one_fails.load(std::memory_order_relaxed)) return false;
    return made_it == (fails_of == whose::this_thread) && still_succeed-- == 0;
}

void* take(std::size_t n, std::size_t alignment) noexcept {
    if (fails()) return nullptr;
    if (counts_now.load(std::memory_order_relaxed)) {
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
    if (p != nullptr && counts_now.load(std::memory_order_relaxed)) {
        auto const got = static_cast<long long>(::malloc_usable_size(p));
        taken += got;
        auto const in_use = held += got;
        for (auto before = most.load();
             before < in_use && !most.compare_exchange_weak(before, in_use);) {
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
    if (counts_now.load(std::memory_order_relaxed))
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
    counts_now = true;
}
allocations::~allocations() {
    counts_now = false;
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

failing_allocation::failing_allocation(of w, std::uint64_t nth) {
    made_it = true;
    fails_of = w;
    still_succeed = static_cast<long long>(nth);
    one_fails = true;
}
failing_allocation::~failing_allocation() {
    one_fails = false;
    made_it = false;
}
bool failing_allocation::hit() const noexcept {
    return still_succeed < 0;
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
