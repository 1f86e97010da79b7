// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_RECORDED_CALLS_HPP
#define CAIRN_TEST_STORAGE_RECORDED_CALLS_HPP

#include "support/system_calls.hpp"

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace support {

using calls = std::vector<system_call>;

inline std::string names(const std::string& dir) {
    std::set<std::string> all;
    for (auto const& e : std::filesystem::recursive_directory_iterator(dir))
        all.insert(std::filesystem::relative(e.path(), dir).string());
    std::string s;
    for (auto const& n : all) s += n + " ";
    return s;
}

inline constexpr std::size_t none = static_cast<std::size_t>(-1);

/// The first call from `from` on that is so and so.
template <class F>
std::size_t first(const calls& all, std::size_t from, F&& f) {
    for (auto i = from; i < all.size(); ++i)
        if (f(all[i])) return i;
    return none;
}
template <class F>
std::size_t last(const calls& all, F&& f) {
    for (auto i = all.size(); i-- > 0;)
        if (f(all[i])) return i;
    return none;
}
inline auto is(std::string what, std::string path) {
    return [=](const system_call& c) { return c.what == what && c.path == path; };
}
inline bool is_data(const system_call& c) {
    return c.path.ends_with(".distcp") || c.path.ends_with(".bin");
}

}  // namespace support

#endif
