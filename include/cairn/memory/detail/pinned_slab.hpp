// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_PINNED_SLAB_HPP
#define CAIRN_MEMORY_DETAIL_PINNED_SLAB_HPP

#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/detail/slab.hpp>
#include <cairn/memory/pinned_bytes.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The latest space of its type that pins memory, and the device for which it does.
struct pinning {
    any_memory_space space;
    device_id device;
};

/// A slab and the memory spaces that have pinned it. It is unpinned before it is unmapped.
class pinned_slab {
public:
    pinned_slab(std::size_t bytes, unsigned threads) : slab_(bytes, threads) {}
    pinned_slab(pinned_slab&&) noexcept = default;
    ~pinned_slab() {
        if (memory().data() == nullptr) return;
        for (auto p = pinned_by_.rbegin(); p != pinned_by_.rend(); ++p)
            p->space.unpin(memory(), p->device);
        uncount_pinned(pinned_bytes());
    }

    /// Pins it for one more space.
    /// @return Empty, or why it stays pageable for that space.
    /// @throws std::bad_alloc, and nothing has changed
    std::string pin(const pinning& by, std::uint64_t process_limit) {
        pinned_by_.reserve(pinned_by_.size() + 1);
        auto const first = pinned_by_.empty();
        if (first && !count_pinned(memory().size(), process_limit))
            return std::to_string(memory().size()) + " bytes more than the " +
                   std::to_string(pinned_bytes_in_process()) +
                   " that this process has pinned would exceed the limit of " +
                   std::to_string(process_limit);
        try {
            auto failure = try_pin(by);
            if (failure.empty())
                pinned_by_.push_back(by);
            else if (first)
                uncount_pinned(memory().size());
            return failure;
        } catch (...) {
            if (first) uncount_pinned(memory().size());
            throw;
        }
    }
    std::size_t pinned_for() const noexcept { return pinned_by_.size(); }
    std::uint64_t pinned_bytes() const noexcept { return pinned_by_.empty() ? 0 : memory().size(); }

    std::span<std::byte> memory() const noexcept { return slab_.memory(); }
    std::uint64_t faults() const noexcept { return slab_.faults(); }
    /// See @ref slab::leak; it stays pinned too.
    void leak() noexcept { slab_.leak(); }

private:
    std::string try_pin(const pinning& by) const {
        auto space = by.space;
        try {
            space.pin(memory(), by.device);
            return {};
        } catch (const std::exception& e) {
            return *e.what() == '\0' ? "an exception without a text" : e.what();
        } catch (...) {
            return "an exception of an unknown type";
        }
    }

    slab slab_;
    std::vector<pinning> pinned_by_{};
};

}  // namespace cairn::detail

#endif
