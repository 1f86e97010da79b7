// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_LAUNCH_HPP
#define CAIRN_TOOLS_LAUNCH_HPP

#include <string>
#include <vector>

namespace tool {

/// Options of `cairn launch`.
struct launch_options {
    int ranks = 1;
    std::vector<std::string> command{};
    int grace = 30;  ///< Seconds in which other ranks may end by themselves after one has failed.
};

/// @return The exit code of the rank that failed first, 128 plus the signal that ended it, or 0:
/// also after a signal that was forwarded and that every rank answered by returning 0.
int launch(const launch_options& o);

}  // namespace tool

#endif
