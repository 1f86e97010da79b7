// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_OMITTED_IPP
#define CAIRN_COMM_IMPL_OMITTED_IPP

#include <cairn/comm/detail/omitted.hpp>

#include <cairn/error.hpp>

#include <atomic>

namespace cairn::detail {

CAIRN_DECL solo omitted_communicator(const environment& get) {
    launch_environment e;
    try {
        e = launch_environment::detect(get);
    } catch (const error&) {  // an incomplete set: see `warning_if_alone`
        return {};
    }
    if (e.size == 1) return {};
    throw error(errc::invalid_argument,
                {.rank = e.rank,
                 .expected = "a communicator: " + e.launcher +
                             " has started this process as one "
                             "of " +
                             std::to_string(e.size) + " (" + e.variables + ")",
                 .found = "none",
                 .remedy = "pass a group of all ranks, e.g. cairn::tcp_group::from_environment(), "
                           "or cairn::solo() if this process alone is meant"});
}

/// Returns true on the first call only.
inline bool first_warning_if_alone() {
    static std::atomic<bool> warned{false};
    return !warned.exchange(true);
}

CAIRN_DECL std::optional<std::string> warning_if_alone(int ranks, bool meant,
                                                       const environment& get) {
    if (ranks != 1 || meant) return {};
    auto const found = launch_environment::unused_variables(get);
    if (found.empty() || !first_warning_if_alone()) return {};
    return "this process ran as a group of one, but " + found +
           " says that it is one of several; cairn looked for " + launch_environment::looked_for +
           ". Pass a group of all ranks, or cairn::solo() if this process alone is meant";
}

}  // namespace cairn::detail

#endif
