// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_PROCESS_IN_WORDS_HPP
#define CAIRN_COMM_TCP_PROCESS_IN_WORDS_HPP

#include <cairn/detail/cxx20.hpp>

#include <unistd.h>

#include <string>

namespace cairn::detail {

/// Returns "process 4711 on node3".
inline std::string process_in_words() {
    char host[256] = {};
    bool const named = ::gethostname(host, sizeof host - 1) == 0;
    return "process " + std::to_string(::getpid()) + (named ? " on " + std::string(host) : "");
}

}  // namespace cairn::detail

#endif
