// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_ABSOLUTE_PATH_HPP
#define CAIRN_DETAIL_ABSOLUTE_PATH_HPP

#include <cairn/detail/cxx20.hpp>

#include <filesystem>
#include <system_error>

namespace cairn::detail {

/// Returns the path from the root, so that a program that keeps it may change its directory. `..`
/// is kept: what it leads to depends on links. A relative path is returned unchanged if the working
/// directory was removed.
inline std::filesystem::path absolute_path(const std::filesystem::path& p) {
    std::error_code gone;
    auto const whole = std::filesystem::absolute(p, gone);
    if (gone) return p;
    std::filesystem::path out;
    for (auto const& part : whole)
        if (!part.empty() && part != ".") out /= part;
    return out;
}

}  // namespace cairn::detail

#endif
