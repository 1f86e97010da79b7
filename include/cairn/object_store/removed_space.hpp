// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_REMOVED_SPACE_HPP
#define CAIRN_OBJECT_STORE_REMOVED_SPACE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/unique_fd.hpp>

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace cairn::detail {

/// Gives the space of removed files back to the file system, on a thread of the process that ends
/// when nothing is left to do.
///
/// To remove a name takes no time; to free what a large file has, its pages in the cache and its
/// blocks on the disk, takes as long as it is large. The file system does that when nothing refers
/// to the file any more: so whoever removes its name holds a descriptor of it, and passes that on.
/// If the process ends, or the machine, the file system does it all the same. A child that is
/// forked does not keep the space.
///
/// Thread-safe. There is one for each process, which is never destroyed.
class removed_space {
public:
    static removed_space& of_process() noexcept;

    /// Returns a descriptor that keeps the space of a file while its name is removed.
    /// @param at  A directory, of which `name` is an entry.
    /// @return None: the space of such a file is freed at once, or its file system is not one of
    /// this host.
    static unique_fd hold(int at, const char* name, const struct ::stat& s) noexcept;

    /// Gives the space back after a `pause`; before it returns where there is no thread for that.
    void free_later(unique_fd removed) noexcept;
    /// Returns when all that was passed on is given back; there is no pause any more.
    void wait() noexcept;

    static constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
    /// What the coordinator still syncs at the end of a save would wait for the disk behind it.
    static constexpr std::chrono::milliseconds pause{250};

private:
    removed_space() noexcept;
    void before_fork() noexcept {
        m_.lock();
        closing_.lock();
    }
    void in_parent() noexcept {
        closing_.unlock();
        m_.unlock();
    }
    void in_child() noexcept;
    bool start() noexcept;
    void run() noexcept;

    std::mutex m_{};
    std::mutex closing_{};  ///< While the thread closes one, so that no child has half of that.
    std::condition_variable changed_{};
    std::array<int, 64> held_{};
    std::size_t count_ = 0;
    bool running_ = false;  ///< The thread.
    bool waiting_ = false;  ///< For all to be freed.
    bool forks_are_seen_;   ///< False: nothing is held.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/removed_space.ipp>
#endif

#endif
