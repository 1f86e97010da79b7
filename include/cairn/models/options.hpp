// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_OPTIONS_HPP
#define CAIRN_MODELS_OPTIONS_HPP

#include <cairn/state/fqn.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace cairn {

/// Options for exchanging whole tensors.
struct gather_options {
    /// The rank that receives the whole; negative: all ranks.
    int root = -1;
    /// The maximum number of bytes of each rank that are in transit at once.
    std::size_t piece_bytes = std::size_t{16} << 20;
    /// Timeout for each exchange; `no_timeout` disables it.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
};

/// Options of `get_state_dict` and `set_state_dict`; DCP's `StateDictOptions`, with its names. They
/// must be the same on all ranks.
struct state_dict_options {
    /// Whole tensors instead of this rank's shards; needs the communicator. get: a copy, of values
    /// too.
    bool full_state_dict = false;
    /// get: a copy in host memory, of values too, so that training may continue, instead of windows
    /// on the model's memory. With full_state_dict the whole is created on rank 0 only; elsewhere
    /// the dicts are empty.
    bool cpu_offload = false;
    /// Omit parameters that are not trained, and the optimizer state kept for them.
    bool ignore_frozen_params = false;
    /// set: a key that is missing or unexpected is an error. So is a group whose parameters come
    /// from groups with different hyperparameters; without strict it keeps its own.
    bool strict = true;
    /// set: rank 0 holds whole tensors, and the other ranks' dicts are ignored; each rank receives
    /// what its shards need, piece by piece. Needs full_state_dict and the communicator.
    bool broadcast_from_rank0 = false;
    /// `state.<fqn>.<name>` and `param_groups.<fqn>.<name>` instead of groups by position, so
    /// that parameters may move between groups and pipeline stages.
    bool flatten_optimizer_state_dict = false;
    /// Only tensors at or below these FQNs; empty: all.
    std::vector<std::string> submodules{};
    fqn_rules names{};
    /// For full_state_dict and broadcast_from_rank0.
    gather_options gather{};
};

}  // namespace cairn

#endif
