// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP
#define CAIRN_OBJECT_STORE_IMPL_REMOVED_SPACE_IPP

#include <cairn/object_store/detail/removed_space.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/unique_fd.hpp>
#include <cairn/object_store/detail/file_system.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>

namespace cairn::detail {

struct removed_space::only {
    static removed_space& one() noexcept {
        static per_process<removed_space> one;
        // At exit, and before a library with this code is unloaded, because its thread runs the
        // code.
        static struct at_exit {
            ~at_exit() { one.get().end(); }
        } const ends;
        return one.get();
    }
};
CAIRN_DECL removed_space& removed_space::of_process() noexcept {
    return only::one();
}

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
    lock_type const lock(m_);
    auto* const f = first(state::none);
    if (f == nullptr) return nullptr;
    unique_fd fd([&] { return ::openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC); });
    // A network file system would give the file another name for as long as it is held.
    if (fd.get() < 0 || file_system_of(fd.get()) == file_system::other) return nullptr;
    *f = {state::named, std::move(fd)};
    return f;
}

CAIRN_DECL void removed_space::free_later(file& f) noexcept {
    lock_type lock(m_);
    f.is = state::removed;
    due_ = std::chrono::steady_clock::now() + pause_;
    if (!start()) close(lock, f);
}

CAIRN_DECL void removed_space::wait(const std::function<void()>& moved) noexcept {
    lock_type lock(m_);
    ++waiting_;
    changed_.notify_all();
    for (;;) {
        if (auto* const f = first(state::removed))
            close(lock, *f);  // beside the thread, and beside others that wait
        else if (first(state::closing) != nullptr)
            changed_.wait(lock, [this, n = closed_] { return closed_ != n; });
        else
            break;
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
    if (running_ || at_exit_) return running_;
    try {
        blocked_signals const blocked;
        if (thread_.joinable()) thread_.join();  // it has nothing left to do but to end
        thread_ = std::thread([this] { run(); });
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
    (void)f.fd.close();
    lock.lock();
    f = {};
    ++closed_;
    changed_.notify_all();
}

CAIRN_DECL void removed_space::end() noexcept {
    wait();
    lock_type lock(m_);
    at_exit_ = true;
    auto last = std::move(thread_);
    lock.unlock();
    if (last.joinable()) last.join();
}

}  // namespace cairn::detail

#endif
