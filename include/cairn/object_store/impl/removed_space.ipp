// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP
#define CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP

#include <cairn/object_store/removed_space.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/object_store/file_system.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <utility>

namespace cairn::detail {

CAIRN_DECL removed_space& removed_space::of_process() noexcept {
    alignas(removed_space) static std::byte room[sizeof(removed_space)];
    static auto& one = *new (room) removed_space();
    return one;
}

CAIRN_DECL removed_space::removed_space() noexcept
    : forks_are_seen_(::pthread_atfork([] { of_process().before_fork(); },
                                       [] { of_process().in_parent(); },
                                       [] { of_process().in_child(); }) == 0) {}

CAIRN_DECL unique_fd removed_space::hold(int at, const char* name,
                                         const struct ::stat& s) noexcept {
    if (!S_ISREG(s.st_mode) || s.st_nlink != 1 ||
        static_cast<std::uint64_t>(s.st_blocks) * 512 < least_bytes)
        return unique_fd(-1);
    unique_fd fd(::openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    // A network file system would give the file another name for as long as it is held.
    if (fd.get() < 0 || file_system_of(fd.get()) == file_system::other) return unique_fd(-1);
    return fd;
}

CAIRN_DECL void removed_space::free_later(unique_fd removed) noexcept {
    if (removed.get() < 0) return;
    std::lock_guard const lock(m_);
    if (!forks_are_seen_ || count_ == held_.size() || !start()) return;
    held_[count_++] = removed.release();
}

CAIRN_DECL void removed_space::wait() noexcept {
    std::unique_lock lock(m_);
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !running_; });
    waiting_ = false;
}

CAIRN_DECL bool removed_space::start() noexcept {
    if (running_) return true;
    try {
        blocked_signals const blocked;
        std::thread([this] { run(); }).detach();
        running_ = true;
    } catch (const std::exception&) {  // no more threads, or no memory for one
    }
    return running_;
}

CAIRN_DECL void removed_space::run() noexcept {
    std::unique_lock lock(m_);
    changed_.wait_for(lock, pause, [this] { return waiting_; });
    while (count_ != 0) {
        int const fd = held_[--count_];
        std::unique_lock closing(closing_);
        lock.unlock();
        ::close(fd);
        closing.unlock();
        lock.lock();
    }
    running_ = false;
    changed_.notify_all();
}

/// Only the thread that forked exists here.
CAIRN_DECL void removed_space::in_child() noexcept {
    while (count_ != 0) ::close(held_[--count_]);
    running_ = false;
    waiting_ = false;
    new (&changed_) std::condition_variable();  // threads of the parent may wait in the old one
    in_parent();
}

}  // namespace cairn::detail

#endif
