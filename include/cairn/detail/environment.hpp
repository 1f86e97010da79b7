// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_ENVIRONMENT_HPP
#define CAIRN_DETAIL_ENVIRONMENT_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace cairn::detail {

/// Reads an environment variable; one that is empty counts as not set.
using environment = std::function<std::optional<std::string>(const char*)>;

inline std::optional<std::string> read_environment(const char* name) {
    auto const* const v = std::getenv(name);
    if (v == nullptr || *v == '\0') return {};
    return v;
}

}  // namespace cairn::detail

#endif
