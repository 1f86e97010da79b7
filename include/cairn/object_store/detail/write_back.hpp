// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_WRITE_BACK_HPP
#define CAIRN_OBJECT_STORE_DETAIL_WRITE_BACK_HPP

#include <cairn/detail/config.hpp>

#include <atomic>
#include <cstdint>

namespace cairn::detail {

/// Writes the bytes of a file back to the disk while more of them are written: at most two
/// stretches are left for the last `fsync`, so that no single call takes as long as the whole file.
///
/// Thread-safe, except for moves.
class write_back {
public:
    static constexpr std::uint64_t stretch = std::uint64_t{32} << 20;

    /// @param on  False: the system writes the bytes back at any time.
    write_back(int fd, bool on) noexcept;
    write_back(write_back&& other) noexcept
        : how_(other.how_.load()), waiting_(other.waiting_.load()) {}
    write_back& operator=(write_back&& other) noexcept {
        how_ = other.how_.load();
        waiting_ = other.waiting_.load();
        return *this;
    }

    /// Must be called after bytes were written. Blocks while more than two stretches are pending.
    /// @return 0, or the errno of a failure: bytes written before are lost, and a later `fsync` of
    /// this or any other descriptor need not report it.
    int wrote(int fd, std::uint64_t n) noexcept;

private:
    enum kind { off, ranges, whole };

    /// Whether the file system supports it. Elsewhere the call may do nothing (overlays), or leave
    /// the bytes on a server that has not stored them (network file systems).
    static bool has_ranges(int fd) noexcept;

    std::atomic<kind> how_;
    std::atomic<std::uint64_t> waiting_{0};  ///< Bytes written since the last call.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/write_back.ipp>
#endif

#endif
