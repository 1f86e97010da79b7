// SPDX-License-Identifier: Apache-2.0
// What tests of conversions convert.
#ifndef CAIRN_TESTS_CONVERT_SOURCES_HPP
#define CAIRN_TESTS_CONVERT_SOURCES_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <numeric>
#include <vector>

namespace convert_sources {

inline std::vector<float> numbers(std::size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}
/// Changes a bit of a file.
inline void damage(const std::filesystem::path& file, std::uint64_t at) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    f.seekg(static_cast<std::streamoff>(at));
    char const c = static_cast<char>(f.get() ^ 1);
    f.seekp(static_cast<std::streamoff>(at));
    f.put(c);
}

}  // namespace convert_sources

#endif
