// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_REMOVED_SPACE_HPP
#define CAIRN_OBJECT_STORE_DETAIL_REMOVED_SPACE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/detail/unique_fd.hpp>

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace cairn::detail {

/// Gives the space of removed files back to the file system, on a thread of the process that ends
/// when nothing is left to do.
///
/// Removing a name takes no time; freeing a large file's pages in the cache and blocks on the disk
/// takes time in proportion to its size. The file system frees them when nothing refers to the file
/// any more: therefore a descriptor of it is held while the name is removed, and closed later. If
/// the process ends, its descriptors are closed too. A forked child does not keep the space.
///
/// Thread-safe. There is one for each process, or for each library that hides this code; it is
/// never destroyed, but at exit its thread is waited for, and space is given back at once from then
/// on.
class removed_space {
public:
    static removed_space& of_process() noexcept;
    removed_space() = default;
    removed_space(removed_space&&) = delete;

    class hold;

    /// Returns when the space of all that was removed before is given back: without the pause, and
    /// by this thread too, one file at a time.
    /// @param moved  Called after each file; must not throw.
    void wait(const std::function<void()>& moved = {}) noexcept;
    /// How long after the last removal the space is given back: the coordinator's syncs at the end
    /// of a save would otherwise wait behind it for the disk.
    void set_pause(std::chrono::milliseconds pause) noexcept;

    static constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
    static constexpr std::chrono::milliseconds usual_pause{250};

private:
    struct only;  ///< Of the process, also if some files are compiled header-only.
    enum class state { none, named, removed, closing };
    struct file {
        state is = state::none;
        unique_fd fd{};
    };
    using lock_type = std::unique_lock<std::mutex>;

    file* keep(int at, const char* name, const struct ::stat& s) noexcept;
    void free_later(file& f) noexcept;
    file* first(state is) noexcept;
    bool start() noexcept;
    void run() noexcept;
    void close(lock_type& lock, file& f) noexcept;
    void end() noexcept;

    std::mutex m_{};
    std::condition_variable changed_{};
    std::array<file, 64> files_{};
    std::chrono::milliseconds pause_ = usual_pause;
    std::chrono::steady_clock::time_point due_{};
    std::uint64_t closed_ = 0;
    int waiting_ = 0;       ///< Callers of `wait`.
    bool running_ = false;  ///< The thread.
    bool at_exit_ = false;
    std::thread thread_{};
};

/// Keeps the space of a file while its name is removed, and gives it back after the pause; at once
/// where no thread can be made. Does nothing for a small file, one with another name, and one whose
/// file system is not known to be of this host.
class removed_space::hold {
public:
    /// @param at  A directory, of which `name` is an entry.
    /// @param s   The status of the file.
    hold(int at, const char* name, const struct ::stat& s) noexcept
        : file_(of_process().keep(at, name, s)) {}
    hold(hold&&) = delete;
    ~hold() {
        if (file_ != nullptr && home_.is_this()) of_process().free_later(*file_);
    }

private:
    home_process home_{};
    file* file_;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/removed_space.ipp>
#endif

#endif
