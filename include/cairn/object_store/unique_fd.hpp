// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_UNIQUE_FD_HPP
#define CAIRN_OBJECT_STORE_UNIQUE_FD_HPP

#include <cairn/detail/cxx20.hpp>

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cairn::detail {

/// Owns a descriptor.
class unique_fd {
public:
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd&& o) noexcept : fd_(o.release()) {}
    unique_fd& operator=(unique_fd&& o) noexcept {
        std::swap(fd_, o.fd_);
        return *this;
    }
    ~unique_fd() { (void)close(); }
    int get() const noexcept { return fd_; }
    /// Leaves the descriptor to the caller.
    int release() noexcept { return std::exchange(fd_, -1); }
    /// @return 0, or the errno of `close`; in either case there is no descriptor any more.
    int close() noexcept {
        int const fd = release();
        return fd >= 0 && ::close(fd) != 0 ? errno : 0;
    }

private:
    int fd_;
};

}  // namespace cairn::detail

#endif
