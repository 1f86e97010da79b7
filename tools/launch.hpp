// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_LAUNCH_HPP
#define CAIRN_TOOLS_LAUNCH_HPP

#include <string>
#include <vector>

namespace tool {

/// What `cairn launch` was asked for.
struct launch_options {
    int ranks = 1;
    std::vector<std::string> command{};
    int grace = 30;  ///< Seconds for the others to end by themselves once a rank has failed.
};

/// @return The exit code of the rank that failed first, 128 and the signal that ended it, or 0.
int launch(const launch_options& o);

}  // namespace tool

#endif
