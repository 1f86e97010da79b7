// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_UNIQUE_FD_HPP
#define CAIRN_DETAIL_UNIQUE_FD_HPP

#include <cairn/detail/forks.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <concepts>
#include <utility>

namespace cairn::detail {

/// Owns a descriptor. A forked child does not have it: it is closed there, and `get` returns -1.
class unique_fd {
public:
    unique_fd() noexcept = default;
    /// @param open  Opens and returns it. No forked child has it, whenever the fork happens.
    template <std::invocable F>
    explicit unique_fd(F&& open) : unique_fd(descriptor_change(), open) {}
    unique_fd(unique_fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)), kept_(std::move(o.kept_)) {}
    unique_fd& operator=(unique_fd&& o) noexcept {
        std::swap(fd_, o.fd_);
        std::swap(kept_, o.kept_);
        return *this;
    }
    ~unique_fd() { (void)close(); }
    int get() const noexcept { return kept_.is_here() ? fd_ : -1; }
    /// @return 0, or the errno of `close`; in either case the descriptor is gone.
    int close() noexcept {
        int const fd = get();
        fd_ = -1;
        if (fd < 0) return 0;
        descriptor_change const closing;
        kept_.end();
        return ::close(fd) != 0 ? errno : 0;
    }

private:
    template <class F>
    unique_fd(const descriptor_change&, F& open) : fd_(not_a_stream(open())), kept_(fd_) {}

    /// In a program that was started without standard streams, a descriptor may get the number of
    /// one, and what other code prints would be written to it.
    static int not_a_stream(int fd) noexcept {
        if (fd < 0 || fd > STDERR_FILENO) return fd;
        int const other = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (other < 0) return fd;
        ::close(fd);
        return other;
    }

    int fd_ = -1;
    kept_from_children kept_{};
};

}  // namespace cairn::detail

#endif
