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
    std::vector<std::string> hosts{};  ///< Empty: this one. Ranks in equal blocks, in order.
    /// Runs a command on another host, whose name follows.
    std::vector<std::string> shell{"ssh", "-o", "BatchMode=yes"};
    std::vector<std::string> pass_on{};  ///< Environment variables to take to other hosts.
    std::string interfaces{};
    int port = 0;    ///< Rank 0's; 0: any, where rank 0 runs here.
    int grace = 30;  ///< Seconds for the rest to end by themselves once a rank has failed.
};

/// @return The exit code of the rank that failed first, 128 and the signal that ended it, or 0.
int launch(const launch_options& o);

}  // namespace tool

#endif
