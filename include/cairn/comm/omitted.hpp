// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_OMITTED_HPP
#define CAIRN_COMM_OMITTED_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/launch_environment.hpp>
#include <cairn/comm/solo.hpp>

#include <atomic>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// What a verb uses that was given no communicator.
/// @throws error errc::invalid_argument in a process that a launcher has started as one of several:
/// each of them alone would save over the others, or load what rank 0 has saved
inline solo omitted_communicator(const environment& get = read_environment) {
    launch_environment e;
    try {
        e = launch_environment::detect(get);
    } catch (const error&) {  // an incomplete set: see `warning_if_alone`
        return {};
    }
    if (e.size == 1) return {};
    throw error(errc::invalid_argument,
                {.rank = e.rank,
                 .expected = "a communicator: " + e.launcher + " has started this process as one "
                             "of " + std::to_string(e.size) + " (" + e.variables + ")",
                 .found = "none",
                 .remedy = "pass a group of all ranks, e.g. cairn::tcp_group::from_environment(), "
                           "or cairn::solo() if this process alone is meant"});
}

/// Whether this is the first time.
inline bool first_warning_if_alone() {
    static std::atomic<bool> warned{false};
    return !warned.exchange(true);
}

/// A warning for the report of a verb that ran as a group of one although the environment says that
/// the process is one of several. Once in a process.
/// @param meant  Whoever passes `solo` means it.
inline std::optional<std::string> warning_if_alone(int ranks, bool meant,
                                                   const environment& get = read_environment) {
    if (ranks != 1 || meant) return {};
    auto const found = launch_environment::unused_variables(get);
    if (found.empty() || !first_warning_if_alone()) return {};
    return "this process ran as a group of one, but " + found +
           " says that it is one of several; cairn looked for " + launch_environment::looked_for +
           ". Pass a group of all ranks, or cairn::solo() if this process alone is meant";
}

}  // namespace cairn::detail

#endif
