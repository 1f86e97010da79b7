// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_CACHED_READS_IPP
#define CAIRN_OBJECT_STORE_IMPL_CACHED_READS_IPP

#include <cairn/object_store/detail/cached_reads.hpp>

#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/posix_file.hpp>

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace cairn::detail {

CAIRN_DECL bool cached_reads::read(int fd, std::uint64_t at, std::span<std::byte> into) noexcept {
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (into.size() > last || at > last - into.size()) return false;
    auto const all = [&](auto&& read) {
        auto const got = retry_interrupted(read);
        return got >= 0 && static_cast<std::size_t>(got) == into.size();
    };
    auto const usual = [&] {
        return ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    };
    auto const without_wait = [&] {
        ::iovec const to{into.data(), into.size()};
        return ::preadv2(fd, &to, 1, static_cast<off_t>(at), RWF_NOWAIT);
    };
    if (unknown_) return false;
    if (in_memory_) return all(usual);
    errno = 0;
    if (all(without_wait)) return true;
    if (errno != EOPNOTSUPP) return false;
    // tmpfs does not know the flag either, but has nothing to wait for.
    bool const in_memory = file_system_of(fd) == file_system::memory;
    (in_memory ? in_memory_ : unknown_) = true;
    return in_memory && all(usual);
}

}  // namespace cairn::detail

#endif
