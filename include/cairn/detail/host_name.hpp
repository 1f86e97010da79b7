// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_HOST_NAME_HPP
#define CAIRN_DETAIL_HOST_NAME_HPP

#include <cairn/detail/cxx20.hpp>

#include <unistd.h>

#include <string>

namespace cairn::detail {

/// Returns the host's name; empty if it is not known.
inline std::string host_name() {
    char host[256] = {};
    return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

}  // namespace cairn::detail

#endif
