// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_HOST_HPP
#define CAIRN_MEMORY_HOST_HPP

#include <cairn/memory/concepts.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace cairn {

/// Memory that the CPU can access, pinned or not. Every operation has it; its copies are made at
/// once, on the calling thread.
class host_memory {
public:
    class queue {
    public:
        /// The host has no streams.
        struct stream {};
        struct event {};

        void fence(std::span<const const_tensor_view>) noexcept {}
        void to_host(std::span<const pitched_copy> copies) noexcept { copy(copies); }
        void to_device(std::span<const pitched_copy> copies) noexcept { copy(copies); }
        event record() noexcept { return {}; }
        bool reached(event&) noexcept { return true; }
        void make_wait(const stream&) noexcept {}

    private:
        static void copy(std::span<const pitched_copy> copies) noexcept {
            for (auto const& c : copies)
                for (std::size_t r = 0; r < c.rows; ++r)
                    std::memcpy(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
        }
    };

    bool serves(device_id d) const noexcept { return is_host(d.kind); }
    void pin(std::span<std::byte>, device_id) noexcept {}
    void unpin(std::span<std::byte>, device_id) noexcept {}
    queue open(device_id) noexcept { return {}; }
};
static_assert(MemorySpace<host_memory>);

}  // namespace cairn

#endif
