// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FORKS_HPP
#define CAIRN_DETAIL_FORKS_HPP

#include <cairn/detail/config.hpp>

#include <cstddef>
#include <new>
#include <utility>

/// What makes forked children work. A child has none of its parent's threads, so that locks which
/// they hold are never released there, and would have all of its descriptors. The handlers at fork
/// call only functions that are async-signal-safe; they neither allocate nor lock.
namespace cairn::detail {

/// Counts the forks between the program's first process and this one.
CAIRN_DECL unsigned fork_count() noexcept;

/// The process in which an object was made, for members that work only there.
class home_process {
public:
    home_process() noexcept : forks_(fork_count()) {}
    bool is_this() const noexcept { return forks_ == fork_count(); }

private:
    unsigned forks_;
};

/// A function that forked children call before anything else runs in them; never removed.
struct child_hook {
    void (*run)(void*) noexcept = nullptr;
    void* with = nullptr;
    child_hook* next = nullptr;
};
/// @param h  Lives until the program ends. Its function is async-signal-safe, as a child requires.
CAIRN_DECL void add_child_hook(child_hook& h) noexcept;

/// An object of the process, which is never destroyed. A forked child has a new one, whose locks
/// are free and which refers to none of the parent's threads; what the parent's object refers to
/// stays allocated. A member `in_child()` of the parent's object is called in the child before
/// that.
/// @tparam T  Its default constructor neither allocates nor locks.
template <class T>
class per_process {
public:
    per_process() noexcept {
        new (room_) T();
        hook_ = {[](void* self) noexcept { static_cast<per_process*>(self)->renew(); }, this};
        add_child_hook(hook_);
    }
    per_process(per_process&&) = delete;
    T& get() noexcept { return *std::launder(reinterpret_cast<T*>(room_)); }

private:
    void renew() noexcept {
        if constexpr (requires(T& t) { t.in_child(); }) get().in_child();
        new (room_) T();
    }

    alignas(T) std::byte room_[sizeof(T)];
    child_hook hook_{};
};

/// While it lives, a fork waits, for a moment at most: a descriptor that this thread opens is
/// passed to @ref close_in_children before a child can have it, and one that it closes is closed
/// before that.
class descriptor_change {
public:
    CAIRN_DECL descriptor_change() noexcept;
    descriptor_change(descriptor_change&&) = delete;
    CAIRN_DECL ~descriptor_change();
};

/// Sets whether forked children close a descriptor at once: otherwise it would keep a file's space,
/// a lock or a connection there after the parent has closed it. Must be unset before the descriptor
/// is closed.
/// @param fd  Below 0: none.
CAIRN_DECL void close_in_children(int fd, bool yes) noexcept;

/// Makes forked children close a descriptor while it lives.
class kept_from_children {
public:
    explicit kept_from_children(int fd = -1) noexcept : fd_(fd) { close_in_children(fd, true); }
    kept_from_children(kept_from_children&& o) noexcept
        : fd_(std::exchange(o.fd_, -1)), home_(o.home_) {}
    kept_from_children& operator=(kept_from_children&& o) noexcept {
        std::swap(fd_, o.fd_);
        std::swap(home_, o.home_);
        return *this;
    }
    ~kept_from_children() { end(); }
    /// Whether the descriptor is open here: in a child it is not.
    bool is_here() const noexcept { return home_.is_this(); }
    void end() noexcept {
        if (int const fd = std::exchange(fd_, -1); is_here()) close_in_children(fd, false);
    }

private:
    int fd_;
    home_process home_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/forks.ipp>
#endif

#endif
