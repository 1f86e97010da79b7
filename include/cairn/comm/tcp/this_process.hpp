// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_THIS_PROCESS_HPP
#define CAIRN_COMM_TCP_THIS_PROCESS_HPP

#include <cairn/detail/cxx20.hpp>

#include <unistd.h>

#include <string>

namespace cairn::detail {

/// Returns "process 4711 on node3".
inline std::string this_process() {
    char host[256] = {};
    bool const named = ::gethostname(host, sizeof host - 1) == 0;
    return "process " + std::to_string(::getpid()) + (named ? " on " + std::string(host) : "");
}

}  // namespace cairn::detail

#endif
