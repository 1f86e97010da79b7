// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_SLAB_HPP
#define CAIRN_MEMORY_DETAIL_SLAB_HPP

#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/memory/page_faults.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace cairn::detail {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// A mapping of anonymous memory: in huge pages if the system has them, on the NUMA nodes of the
/// threads that touched them. Core dumps leave it out.
class slab {
public:
    /// Whether a child process has a copy of the memory. Memory that devices write to, or that is
    /// pinned for them, must be absent there, so that no copy on write separates it from the
    /// device.
    enum class in_child { absent, copied };

    /// @param bytes    A multiple of the page size.
    /// @param threads  That make every page present; 0: pages are made as they are used.
    /// @throws error with the system's code if there is not that much memory
    slab(std::size_t bytes, unsigned threads, in_child child = in_child::absent) : bytes_(bytes) {
        if (bytes > static_cast<std::size_t>(-1) / 2) refuse(ENOMEM);
        auto const before = page_faults_of_thread();
        // Huge pages are aligned: map more, and unmap both ends.
        auto const room = bytes >= huge_page ? bytes + huge_page : bytes;
        auto* const all =
            ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) refuse(errno);
        auto* const begin = static_cast<std::byte*>(all);
        auto const skip = room == bytes ? 0 : -reinterpret_cast<std::uintptr_t>(begin) % huge_page;
        memory_ = begin + skip;
        if (skip != 0) ::munmap(begin, skip);
        if (room != bytes + skip) ::munmap(memory_ + bytes, room - bytes - skip);

        (void)::madvise(memory_, bytes, MADV_HUGEPAGE);  // may fail
        (void)::madvise(memory_, bytes, MADV_DONTDUMP);
        int failed = 0;
        if (child == in_child::absent && ::madvise(memory_, bytes, MADV_DONTFORK) != 0)
            failed = errno;
        if (failed == 0 && threads != 0) failed = populate(threads);
        if (failed != 0) {
            ::munmap(memory_, bytes);
            refuse(failed);
        }
        faults_ += page_faults_of_thread() - before;
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
    /// Returns the page faults of mapping it.
    std::uint64_t faults() const noexcept { return faults_; }
    /// Leaves it mapped until the process ends, or leaves it to the process that it belongs to.
    void leak() noexcept { memory_ = nullptr; }

private:
    /// Threads take parts in turn. @return 0, or an errno
    int populate(unsigned threads) noexcept {
        constexpr std::size_t part = 8 * huge_page;
        auto const parts = (bytes_ + part - 1) / part;
        std::atomic<std::size_t> next{0};
        std::atomic<int> failed{0};
        std::atomic<std::uint64_t> faults{0};
        auto const caller = std::this_thread::get_id();
        auto const work = [&]() noexcept {
            auto const before = page_faults_of_thread();
            for (auto k = next++; k < parts && failed == 0; k = next++)
                if (int const e = populate(k * part, std::min(part, bytes_ - k * part)); e != 0)
                    failed = e;
            if (std::this_thread::get_id() != caller) faults += page_faults_of_thread() - before;
        };
        // By reference: a copy might need memory.
        in_parallel(static_cast<unsigned>(std::min<std::size_t>(threads, parts)), std::cref(work));
        faults_ += faults;
        return failed;
    }
    int populate(std::size_t begin, std::size_t bytes) noexcept {
        constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
        if (::madvise(memory_ + begin, bytes, populate_write) == 0) return 0;
        if (errno != EINVAL) return errno;
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        for (auto at = begin; at < begin + bytes; at += page)
            *static_cast<volatile std::byte*>(memory_ + at) = std::byte{0};
        return 0;
    }
    [[noreturn]] void refuse(int code) const {
        error_code const ec(code, boost::system::system_category());
        auto const free = static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) *
                          static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
        throw error(ec, {.expected = std::to_string(bytes_) + " bytes of staging memory",
                         .found = std::to_string(free) + " bytes free on this host",
                         .remedy = "set a smaller memory budget, or raise the limits of the "
                                   "process (ulimit -v, its cgroup)"});
    }

    std::byte* memory_ = nullptr;
    std::size_t bytes_;
    std::uint64_t faults_ = 0;
};

}  // namespace cairn::detail

#endif
