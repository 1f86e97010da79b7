// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_DIRECT_IO_HPP
#define CAIRN_TEST_SUPPORT_DIRECT_IO_HPP

#include <cairn/object_store/read_whole.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace support {

/// Whether files of a directory cannot bypass the page cache; says so.
inline bool lacks_direct_io(const std::filesystem::path& directory) {
    auto const file = (directory / "direct").string();
    int const fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    ::unlink(file.c_str());
    if (fd < 0)
        std::cout << "direct I/O: skipped: no direct I/O in " << directory << "\n";
    else
        ::close(fd);
    return fd < 0;
}

/// Drops what the page cache has of a file.
inline void forget_cached(const std::filesystem::path& file) {
    int const fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    (void)::fsync(fd);
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
}

inline std::size_t cached_pages(const std::filesystem::path& file);

/// Whether a file of a directory cannot be read without the page cache having it afterwards, as in
/// memory; says so.
inline bool lacks_direct_reads(const std::filesystem::path& directory) {
    if (lacks_direct_io(directory)) return true;
    constexpr std::size_t bytes = 1 << 16;
    auto const file = directory / "direct_reads";
    void* const memory = std::aligned_alloc(4096, bytes);
    int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool well = memory != nullptr && ::pwrite(fd, memory, bytes, 0) == ssize_t{bytes};
    ::close(fd);
    forget_cached(file);
    fd = ::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    well = well && ::pread(fd, memory, bytes, 0) == static_cast<ssize_t>(bytes) &&
           cached_pages(file) == 0;
    ::close(fd);
    ::unlink(file.c_str());
    std::free(memory);
    if (!well)
        std::cout << "direct reads: skipped: the page cache has all files in " << directory << "\n";
    return !well;
}

/// How many pages of a file the page cache has.
inline std::size_t cached_pages(const std::filesystem::path& file) {
    auto const size = static_cast<std::size_t>(std::filesystem::file_size(file));
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    int const fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    auto* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> in_core((size + page - 1) / page);
    bool const known = at != MAP_FAILED && ::mincore(at, size, in_core.data()) == 0;
    if (at != MAP_FAILED) ::munmap(at, size);
    ::close(fd);
    if (!known) throw std::runtime_error("mincore: " + file.string());
    return static_cast<std::size_t>(
        std::count_if(in_core.begin(), in_core.end(), [](auto p) { return (p & 1) != 0; }));
}

/// Whether the kernel does not tell what the page cache has of a file of ours; says so.
inline bool lacks_cachestat(const std::filesystem::path& file) {
    int const fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    std::array<std::uint64_t, 2> const range{0, 4096};
    std::array<std::uint64_t, 5> pages{};
    constexpr long number = 451;  // on all but the oldest architectures
    bool const lacks = ::syscall(number, fd, range.data(), pages.data(), 0U) != 0;
    if (lacks) std::cout << "cachestat: skipped: " << std::strerror(errno) << "\n";
    ::close(fd);
    return lacks;
}

/// No two blocks are alike.
inline cairn::byte_vector some_bytes(std::size_t n) {
    std::mt19937_64 chance(n);
    cairn::byte_vector out(n);
    for (auto& b : out) b = static_cast<std::byte>(chance());
    return out;
}

/// The writes of one file.
class written_file {
public:
    static constexpr std::uint64_t block = 4096;

    void note(std::uint64_t at, std::uint64_t n, bool is_direct) {
        ++writes;
        largest = std::max(largest, n);
        for (auto i = at / block; i * block < at + n; ++i) (is_direct ? direct : usual).insert(i);
    }
    bool is_written_both_ways() const {
        return std::any_of(usual.begin(), usual.end(),
                           [&](auto i) { return direct.count(i) != 0; });
    }
    std::size_t writes = 0;
    std::uint64_t largest = 0;
    std::set<std::uint64_t> direct{}, usual{};  ///< Blocks.
};

}  // namespace support

#endif
