// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_PROCESS_IN_WORDS_HPP
#define CAIRN_COMM_DETAIL_TCP_PROCESS_IN_WORDS_HPP

#include <cairn/detail/cxx20.hpp>
#include <cairn/detail/host_name.hpp>

#include <unistd.h>

#include <string>

namespace cairn::detail {

/// Returns "process 4711 on node3".
inline std::string process_in_words() {
    auto const host = host_name();
    return "process " + std::to_string(::getpid()) + (host.empty() ? "" : " on " + host);
}

}  // namespace cairn::detail

#endif
