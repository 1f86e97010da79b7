// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_DIRECT_IO_HPP
#define CAIRN_TEST_SUPPORT_DIRECT_IO_HPP

#include <cairn/object_store/read_whole.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>

namespace support {

/// Whether files of a directory cannot bypass the page cache; says so.
inline bool lacks_direct_io(const std::filesystem::path& directory) {
    auto const file = (directory / "direct").string();
    int const fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    ::unlink(file.c_str());
    if (fd < 0)
        std::cout << "direct writes: skipped: no direct I/O in " << directory << "\n";
    else
        ::close(fd);
    return fd < 0;
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
