// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_LIVENESS_HPP
#define CAIRN_COMM_TREE_LIVENESS_HPP

#include <chrono>

namespace cairn {

/// How long a group of processes waits for signs of life.
struct group_patience {
    std::chrono::milliseconds beat{1000};     ///< A rank that says nothing else says that it lives.
    std::chrono::milliseconds silence{10000}; ///< One of whom nothing is heard so long is dead.
    std::chrono::milliseconds judge{1500};    ///< To find out who is late when a deadline passed.
};

}  // namespace cairn

#endif
