// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_SLAB_HPP
#define CAIRN_MEMORY_SLAB_HPP

#include <cairn/error.hpp>
#include <cairn/memory/page_faults.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Anonymous memory of its own mapping, ready for use: in huge pages where the system has them,
/// every page present and, where memory is not uniform, on the node of the thread that made it. A
/// child process does not get it, so that no copy on write separates it from a device that it is
/// pinned for. Core dumps leave it out.
class slab {
public:
    /// @param bytes  A multiple of the page size.
    /// @throws error with the system's code when there is not so much memory
    explicit slab(std::size_t bytes) : bytes_(bytes) {
        if (bytes > static_cast<std::size_t>(-1) / 2) refuse(ENOMEM);
        auto const before = page_faults_of_thread();
        // More, and the ends given back: huge pages are aligned.
        auto const room = bytes >= huge_page ? bytes + huge_page : bytes;
        auto* const all =
            ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) refuse(errno);
        auto* const begin = static_cast<std::byte*>(all);
        auto const skip = room == bytes ? 0 : -reinterpret_cast<std::uintptr_t>(begin) % huge_page;
        memory_ = begin + skip;
        if (skip != 0) ::munmap(begin, skip);
        if (room != bytes + skip) ::munmap(memory_ + bytes, room - bytes - skip);

        (void)::madvise(memory_, bytes, MADV_HUGEPAGE);  // a wish
        (void)::madvise(memory_, bytes, MADV_DONTDUMP);
        auto failed = ::madvise(memory_, bytes, MADV_DONTFORK) == 0 ? 0 : errno;
        if (failed == 0) failed = populate();
        if (failed != 0) {
            ::munmap(memory_, bytes);
            refuse(failed);
        }
        faults_ = page_faults_of_thread() - before;
    }
    slab(slab&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_),
          faults_(other.faults_) {}
    slab& operator=(slab&&) = delete;
    ~slab() {
        if (memory_ != nullptr) ::munmap(memory_, bytes_);
    }

    std::span<std::byte> memory() const noexcept {
        return {memory_, memory_ == nullptr ? 0 : bytes_};
    }
    /// Of its making.
    std::uint64_t faults() const noexcept { return faults_; }
    /// It stays mapped until the process ends; or it is not this process's at all.
    void leak() noexcept { memory_ = nullptr; }

private:
    /// @return 0, or an errno
    int populate() noexcept {
        constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
        if (::madvise(memory_, bytes_, populate_write) == 0) return 0;
        if (errno != EINVAL) return errno;
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        for (std::size_t at = 0; at < bytes_; at += page)
            *static_cast<volatile std::byte*>(memory_ + at) = std::byte{0};
        return 0;
    }
    [[noreturn]] void refuse(int code) const {
        error_code const ec(code, boost::system::system_category());
        throw error(ec, {.expected = std::to_string(bytes_) + " bytes of staging memory",
                         .remedy = "stage with a smaller memory budget"});
    }

    std::byte* memory_ = nullptr;
    std::size_t bytes_;
    std::uint64_t faults_ = 0;
};

}  // namespace cairn::detail

#endif
