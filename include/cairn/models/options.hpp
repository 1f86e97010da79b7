// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_OPTIONS_HPP
#define CAIRN_MODELS_OPTIONS_HPP

#include <cairn/state/fqn.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace cairn {

/// How tensors are exchanged whole.
struct gather_options {
    /// The rank that gets the whole; negative: all ranks.
    int root = -1;
    /// At most so many bytes of each rank are under way at once.
    std::size_t piece_bytes = std::size_t{16} << 20;
    /// Timeout for each exchange; `no_timeout` disables it.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
};

/// What `get_state_dict` and `set_state_dict` can be told; DCP's `StateDictOptions`, with its
/// names. The same on all ranks.
struct state_dict_options {
    /// Tensors whole instead of this rank's shards; needs the communicator.
    bool full_state_dict = false;
    /// get: a copy in host memory, which training may go on beside, instead of windows on the
    /// model's. With full_state_dict the whole is made on rank 0 only; elsewhere the dicts are
    /// empty.
    bool cpu_offload = false;
    /// Leave parameters out that are not trained, and what an optimizer keeps for them.
    bool ignore_frozen_params = false;
    /// set: a key that is missing or unexpected is an error. A group whose parameters come from
    /// groups with different hyperparameters is one too; without strict it keeps its own.
    bool strict = true;
    /// set: rank 0 holds whole tensors, the others' dicts are not looked at; each rank gets what
    /// its shards need, piece by piece. Needs full_state_dict and the communicator.
    bool broadcast_from_rank0 = false;
    /// `state.<fqn>.<name>` and `param_groups.<fqn>.<name>` instead of groups by position, so
    /// that parameters may move between groups and pipeline stages.
    bool flatten_optimizer_state_dict = false;
    /// Only what lies below these FQNs; empty: everything.
    std::vector<std::string> submodules{};
    fqn_rules names{};
    /// For full_state_dict and broadcast_from_rank0.
    gather_options gather{};
};

}  // namespace cairn

#endif
