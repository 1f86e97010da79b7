// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FLAT_STATE_HPP
#define CAIRN_STATE_FLAT_STATE_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/state/value.hpp>
#include <cairn/tensor/traits.hpp>

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace cairn {

/// A tensor of the state, seen through its traits: plain data, no templates from here on.
struct tensor_leaf {
    dtype type = dtype::float32;
    sizes global;                ///< Extents of the whole.
    bool sharded = false;        ///< False: every rank holds the whole (DCP's TENSOR item).
    bool writable = true;        ///< False for const tensors: savable, never loaded into.
    bool requires_grad = false;
    std::vector<shard> shards;   ///< 0, 1 or many.
    std::shared_ptr<const void> keep;  ///< Owns an rvalue that was put into a state dict.
};

/// A value of the state that is not a tensor.
struct object_leaf {
    /// The value as it is now. Called inside the verb's initiating call only.
    std::function<value()> get;
    /// Gives a loaded value back; throws @ref error when it does not fit. Empty: read-only.
    std::function<void(value)> set;
    bool per_rank = false;  ///< Each rank has its own; see `per_rank`.
};

/// What PyTorch up to 2.3 had as one object where several leaves are today: a mapping or list
/// without a tensor in it. A checkpoint of that age has its name, not theirs.
struct older_leaf {
    std::string fqn;
    /// Gives the loaded object to the leaves; throws @ref error when it does not fit.
    std::function<void(const value&)> set;
    /// The container around it, if that has no tensor either. PyTorch stored the outermost of the
    /// state that was saved; the one that is loaded may be a part of it.
    std::shared_ptr<const older_leaf> outer{};
};

struct flat_leaf {
    std::string fqn;  ///< The path joined by dots.
    key_path path;
    std::variant<tensor_leaf, object_leaf> what;
    std::shared_ptr<const older_leaf> older{};  ///< The innermost; shared by its leaves.

    tensor_leaf* tensor() { return std::get_if<tensor_leaf>(&what); }
    const tensor_leaf* tensor() const { return std::get_if<tensor_leaf>(&what); }
    object_leaf* object() { return std::get_if<object_leaf>(&what); }
    const object_leaf* object() const { return std::get_if<object_leaf>(&what); }
};

/// A state dict as a list of named leaves, in the order in which DCP's flattening visits them.
using flat_state = std::vector<flat_leaf>;

}  // namespace cairn

#endif
