// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FLAT_STATE_HPP
#define CAIRN_STATE_FLAT_STATE_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/tensor/traits.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace cairn {

/// How a number that the program keeps in one type is shown as a 0-d tensor of another; made by
/// @ref converted.
struct conversion {
    /// Writes the number as it is now: one element of the tensor's dtype.
    std::function<void(std::byte*)> get;
    /// Takes such an element and returns what puts the old number back. Throws @ref error when it
    /// does not fit; then nothing has changed. Empty: the number can only be saved.
    std::function<std::function<void()>(const std::byte*)> set;
    /// Which number it is. Tensors of one number are tied, as two names of one weight are. Null:
    /// not known.
    const void* number = nullptr;
};

/// The one element of a tensor that shows a number.
struct shown_number {
    std::shared_ptr<const conversion> how;
    alignas(16) std::array<std::byte, 16> memory{};
    /// What was in `memory` when it was last in step with the number. A load that brings the same
    /// sets nothing: a number that the dtype holds rounded stays exact.
    std::array<std::byte, 16> known{};
};

/// A tensor of the state, seen through its traits: plain data, no templates from here on.
struct tensor_leaf {
    dtype type = dtype::float32;
    index_vector global_shape;  ///< Extents of the whole.
    bool sharded = false;       ///< False: every rank holds the whole (DCP's TENSOR item).
    bool writable = true;       ///< False for const tensors: savable, never loaded into.
    bool requires_grad = false;
    bool per_rank = false;             ///< Each rank has its own; see `per_rank`.
    std::vector<shard> shards;         ///< 0, 1 or many.
    std::shared_ptr<const void> keep;  ///< Owns an rvalue that was put into a state dict.
    /// Set for a number that is kept in another type; the only shard is its memory.
    std::shared_ptr<shown_number> number{};
};

/// A value of the state that is not a tensor.
struct value_leaf {
    /// The value as it is now. Called inside the verb's initiating call only.
    std::function<value()> get;
    /// Gives a loaded value back; throws @ref error when it does not fit. Empty: read-only.
    std::function<void(value)> set;
    /// Throws what `set` would throw for a value, and changes nothing. Empty: nothing is known
    /// before, or `set` takes whatever there is.
    std::function<void(const value&)> check{};
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
    /// As an @ref value_leaf has it.
    std::function<void(const value&)> check{};
};

struct flat_leaf {
    std::string fqn;  ///< The path joined by dots.
    key_path path;
    std::variant<tensor_leaf, value_leaf> what;
    std::shared_ptr<const older_leaf> older{};  ///< The innermost; shared by its leaves.
    /// Under which a checkpoint may have it where it has no `fqn`: other names of a tied weight.
    std::vector<std::string> other_names{};

    tensor_leaf* tensor() { return std::get_if<tensor_leaf>(&what); }
    const tensor_leaf* tensor() const { return std::get_if<tensor_leaf>(&what); }
    value_leaf* value() { return std::get_if<value_leaf>(&what); }
    const value_leaf* value() const { return std::get_if<value_leaf>(&what); }
    /// Whether it is kept under its name and the rank.
    bool per_rank() const { return tensor() != nullptr ? tensor()->per_rank : value()->per_rank; }
};

/// A state dict as a list of named leaves, in the order in which DCP's flattening visits them.
using flat_state = std::vector<flat_leaf>;

}  // namespace cairn

#endif
