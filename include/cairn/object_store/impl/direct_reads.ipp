// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_DIRECT_READS_IPP
#define CAIRN_OBJECT_STORE_IMPL_DIRECT_READS_IPP

#include <cairn/object_store/detail/direct_reads.hpp>

#include <cairn/object_store/detail/page_cache.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

namespace cairn::detail {

CAIRN_DECL unique_fd direct_reads::open_again(int usual, const std::string& path) noexcept {
    auto direct = open_path(path, O_RDONLY | O_NONBLOCK | O_DIRECT);
    struct ::stat here {};
    struct ::stat there {};
    bool const same = direct.get() >= 0 && ::fstat(usual, &here) == 0 &&
                      ::fstat(direct.get(), &there) == 0 && is_same_file(here, there);
    return same ? std::move(direct) : unique_fd();
}
CAIRN_DECL bool direct_reads::opens(int usual) noexcept {
    if (!opened_) {
        std::lock_guard const lock(opening_);
        if (!opened_) fd_ = open_again(usual, path_);
        opened_ = true;
    }
    return fd_.get() >= 0;
}

CAIRN_DECL std::size_t direct_reads::read(int usual, std::uint64_t at,
                                          std::span<std::byte> into) noexcept {
    // The usual read reports a file that does not exist.
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (refused_ || into.size() > last || at > last - into.size()) return 0;
    if (page_cache_may_have(usual, at, into.size()) || !opens(usual)) return 0;
    auto const got = retry_interrupted(
        [&] { return ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(at)); });
    if (got < 0 && errno == EINVAL) refused_ = true;
    return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace cairn::detail

#endif
