// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP
#define CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP

#include <cairn/object_store/removed_space.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/object_store/file_system.hpp>
#include <cairn/object_store/unique_fd.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <new>
#include <thread>

namespace cairn::detail {

CAIRN_DECL removed_space& removed_space::of_process() noexcept {
    alignas(removed_space) static std::byte room[sizeof(removed_space)];
    static auto& one = *new (room) removed_space();
    // At exit, and before a library with this code is unloaded, for its thread runs that.
    static struct at_end {
        ~at_end() { one.wait(); }
    } const waits;
    return one;
}

CAIRN_DECL removed_space::removed_space() noexcept
    : forks_are_seen_(::pthread_atfork([] { of_process().before_fork(); },
                                       [] { of_process().after_fork(); },
                                       [] { of_process().in_child(); }) == 0) {}

CAIRN_DECL removed_space::file* removed_space::first(state is) noexcept {
    for (auto& f : files_)
        if (f.is == is) return &f;
    return nullptr;
}

CAIRN_DECL removed_space::file* removed_space::keep(int at, const char* name,
                                                    const struct ::stat& s) noexcept {
    if (!S_ISREG(s.st_mode) || s.st_nlink != 1 ||
        static_cast<std::uint64_t>(s.st_blocks) * 512 < least_bytes)
        return nullptr;
    // No child of a fork has a descriptor that is not noted here.
    lock_type const lock(m_);
    auto* const f = first(state::none);
    if (f == nullptr || !forks_are_seen_) return nullptr;
    unique_fd fd(::openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct ::stat opened {};
    // A network file system would give the file another name for as long as it is held.
    if (fd.get() < 0 || ::fstat(fd.get(), &opened) != 0 ||
        file_system_of(fd.get()) == file_system::other)
        return nullptr;
    *f = {state::named, fd.release(), opened.st_dev, opened.st_ino};
    return f;
}

CAIRN_DECL void removed_space::free_later(file& f) noexcept {
    lock_type lock(m_);
    if (f.is != state::named) return;  // in a child
    f.is = state::removed;
    due_ = std::chrono::steady_clock::now() + pause_;
    if (!start()) close(lock, f);
}

CAIRN_DECL void removed_space::wait(const std::function<void()>& moved) noexcept {
    lock_type lock(m_);
    ++waiting_;
    changed_.notify_all();
    while (running_) {
        changed_.wait(lock, [this, n = closed_] { return !running_ || closed_ != n; });
        if (!moved) continue;
        lock.unlock();
        moved();
        lock.lock();
    }
    --waiting_;
}

CAIRN_DECL void removed_space::set_pause(std::chrono::milliseconds pause) noexcept {
    lock_type const lock(m_);
    pause_ = pause;
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
    lock_type lock(m_);
    while (auto* const f = first(state::removed)) {
        if (waiting_ == 0 && std::chrono::steady_clock::now() < due_)
            changed_.wait_until(lock, due_);
        else
            close(lock, *f);
    }
    running_ = false;
    changed_.notify_all();
}

CAIRN_DECL void removed_space::close(lock_type& lock, file& f) noexcept {
    f.is = state::closing;
    lock.unlock();
    ::close(f.fd);
    lock.lock();
    f = {};
    ++closed_;
    changed_.notify_all();
}

/// Only the thread that forked exists here.
CAIRN_DECL void removed_space::in_child() noexcept {
    for (auto& f : files_) {
        struct ::stat s {};
        // What was being closed may be closed, and its number be another file's.
        bool const still = f.is != state::closing ||
                           (::fstat(f.fd, &s) == 0 && s.st_dev == f.device && s.st_ino == f.inode);
        if (f.is != state::none && still) ::close(f.fd);
        f = {};
    }
    running_ = false;
    waiting_ = 0;
    new (&changed_) std::condition_variable();  // threads of the parent may wait in the old one
    after_fork();
}

}  // namespace cairn::detail

#endif
