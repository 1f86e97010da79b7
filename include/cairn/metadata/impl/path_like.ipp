// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_PATH_LIKE_IPP
#define CAIRN_METADATA_IMPL_PATH_LIKE_IPP

#include <cairn/metadata/detail/path_like.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL key_path path_like(std::string name, const key_path& other) {
    auto const text = [&](std::size_t i) {
        auto const* const key = std::get_if<std::string>(&other[i]);
        return key != nullptr ? *key : std::to_string(std::get<std::int64_t>(other[i]));
    };
    auto const whole = name;
    key_path path;
    std::size_t begin = 0, end = other.size();
    for (; begin + 1 < end && name.starts_with(text(begin) + "."); ++begin) {
        path.push_back(other[begin]);
        name.erase(0, text(begin).size() + 1);
    }
    for (; begin + 1 < end && name.ends_with("." + text(end - 1)); --end)
        name.resize(name.size() - text(end - 1).size() - 1);
    bool const same = begin < end && name == text(begin);
    // Without the position in a list, the step before it would be a mapping here and a list there.
    for (auto i = begin + (same ? 1 : 0); i < end; ++i)
        if (std::holds_alternative<std::int64_t>(other[i])) return {whole};
    if (same)
        path.push_back(other[begin]);
    else
        path.emplace_back(std::move(name));
    path.insert(path.end(), other.begin() + static_cast<std::ptrdiff_t>(end), other.end());
    return path;
}

}  // namespace cairn::detail

#endif
