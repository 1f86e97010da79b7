// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_DIRECT_WRITES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_DIRECT_WRITES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::detail {

class slab;

/// Writes a file past the page cache, as long as it is written from its beginning on: gathers the
/// bytes in a slab and writes whole blocks. Bytes written ahead of these go through the page cache,
/// and so do all from the first such block on; no block is written both ways.
///
/// The slab is made of huge pages, if it is large enough and there are some: otherwise the limit of
/// memory segments per request splits it into several requests to the disk.
///
/// Thread-safe. The descriptor is the owner's, the same in all calls.
class direct_writes {
public:
    static constexpr std::size_t block_bytes = 4096;

    /// @param slab_bytes  How much is gathered; a multiple of `block_bytes`.
    /// @return Null if the file system has no direct I/O, or nothing is gained, i.e. for files that
    /// do not fill a slab.
    static std::unique_ptr<direct_writes> of(int fd, std::uint64_t size,
                                             std::size_t slab_bytes) noexcept;
    direct_writes(direct_writes&&) = delete;
    ~direct_writes();

    /// @return The end of `b` that it has not taken, to be written as usual.
    /// @throws error errc::io
    byte_span write(int fd, std::uint64_t at, byte_span b, const std::string& path);
    /// Writes the bytes that it still has. From then on it takes none.
    /// @throws error errc::io
    void end(int fd, const std::string& path);

private:
    direct_writes(std::unique_ptr<slab> s, std::size_t bytes) noexcept;
    std::byte* memory() const noexcept;
    std::uint64_t position() const noexcept { return begin_ + filled_; }
    void write_ahead(int fd, std::uint64_t at, byte_span b, const std::string& path);
    bool write_blocks(int fd, const std::string& path);
    void stop(int fd, const std::string& path);

    std::mutex m_{};
    std::unique_ptr<slab> slab_;  ///< Null: it has ended.
    std::size_t slab_bytes_;
    std::uint64_t begin_ = 0;  ///< Of the slab in the file.
    std::size_t filled_ = 0;
    std::uint64_t limit_ = UINT64_MAX;  ///< The first block that was written ahead.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/direct_writes.ipp>
#endif

#endif
