// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_MAPPED_STATE_HPP
#define CAIRN_SAVE_DETAIL_MAPPED_STATE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <functional>
#include <memory>

namespace cairn {
class mapping;
}

namespace cairn::detail {

/// How single numbers in the memory of devices are read, where several become one.
struct device_numbers {
    /// Makes the devices of some tensors, fenced. Null: there are no memory spaces.
    std::function<std::shared_ptr<state_devices>(const flat_state&)> devices{};
    deadline until = no_deadline;
};

/// Returns what a save stores of a state: tensors under their stored names, whose shards are
/// strided views of the state's memory. Elements of another dtype are converted here, into memory
/// that the result owns, and values are read. Blocks until devices have copied the numbers that
/// several names must have alike.
/// @param ranks    Null: there is one.
/// @param sources  Not null: what each shard is made of.
/// @throws error as `to_stored`; errc::invalid_state for what no tensor can be;
/// errc::value_mismatch for different numbers that become one; errc::unsupported for tensors on
/// devices that are to be converted, and for numbers on devices without a memory space
CAIRN_DECL flat_state mapped_state(const flat_state& state, const mapping& how,
                                   const erased_communicator* ranks, device_numbers numbers = {},
                                   shard_sources* sources = nullptr);

/// Maps the leaves of a state, unless it is refused already; a failure refuses it.
/// @param how  Null: they stay as they are.
CAIRN_DECL void map_names(flattened_or_error& flat, const std::shared_ptr<const mapping>& how,
                          const erased_communicator* ranks, device_numbers numbers = {});

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/mapped_state.ipp>
#endif

#endif
