// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_OMITTED_HPP
#define CAIRN_COMM_OMITTED_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/launch_environment.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>

#include <optional>
#include <string>
#include <type_traits>

namespace cairn::detail {

/// What a verb uses that was given no communicator.
/// @throws error errc::invalid_argument in a process that a launcher has started as one of several:
/// each of them alone would save over the others, or load what rank 0 has saved
CAIRN_DECL solo omitted_communicator(const environment& get = read_environment);

/// Why a group of one may be a mistake; the first time in a process that it may.
CAIRN_DECL std::optional<std::string> reason_to_warn(const environment& get);

/// A warning for the report of a verb that ran as a group of one although the environment says that
/// the process is one of several. Once in a process.
template <Communicator Comm>
std::optional<std::string> warning_if_alone(const Comm& ranks, bool omitted,
                                            const environment& get = read_environment) {
    // Whoever passes `solo` means it.
    if (ranks.size() != 1 || (std::is_same_v<Comm, solo> && !omitted)) return {};
    return reason_to_warn(get);
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/omitted.ipp>
#endif

#endif
