// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_OMITTED_HPP
#define CAIRN_COMM_DETAIL_OMITTED_HPP

#include <cairn/comm/detail/launch_environment.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>

#include <optional>
#include <string>

namespace cairn::detail {

/// The communicator of a verb that was called without one.
/// @throws error errc::invalid_argument in a process that a launcher started as one of several:
/// each of them alone would overwrite the others' checkpoint, or load what rank 0 saved
CAIRN_DECL solo omitted_communicator(const environment& get = read_environment);

/// A warning for the report of a verb that ran as a group of one although the environment shows
/// that the process is one of several. Issued once per process.
/// @param meant  The caller passed `solo` explicitly.
CAIRN_DECL std::optional<std::string> warning_if_alone(
    int ranks, bool meant, const environment& get = noted_environment::read);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/omitted.ipp>
#endif

#endif
