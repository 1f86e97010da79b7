// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FLAT_STATE_HPP
#define CAIRN_STATE_FLAT_STATE_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/tensor/traits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace cairn {

/// Converts a number that the program keeps in one type to and from a 0-d tensor of another.
/// Created by @ref converted.
struct conversion {
    /// Writes the current number: one element of the tensor's dtype.
    std::function<void(std::byte*)> get;
    /// Sets the number from such an element and returns a function that restores the old one.
    /// Throws @ref error if it does not fit, and then changes nothing. Empty: the number can only
    /// be saved.
    std::function<std::function<void()>(const std::byte*)> set;
    /// Identifies the number. Tensors of one number are tied, as two names of one weight are. Null:
    /// unknown.
    const void* number = nullptr;
    /// Throws what `set` would throw, and changes nothing. Empty: nothing is known in advance.
    std::function<void(const std::byte*)> check{};
};

/// The single element of a tensor that represents a number.
struct shown_number {
    std::shared_ptr<const conversion> how;
    alignas(16) std::array<std::byte, 16> memory{};
    /// The content of `memory` when it was last in step with the number. Loading the same content
    /// does not set the number, so one that the dtype holds rounded stays exact.
    std::array<std::byte, 16> known{};
};

/// A tensor of the state as plain data, read through its traits: no templates from here on.
struct tensor_leaf {
    dtype type = dtype::float32;
    index_vector global_shape;  ///< Of the whole tensor.
    bool sharded = false;       ///< False: every rank holds the whole (DCP's TENSOR item).
    bool writable = true;       ///< False for const tensors: savable, never loaded into.
    bool requires_grad = false;
    bool per_rank = false;             ///< Each rank has its own; see `per_rank`.
    std::vector<shard> shards;         ///< 0, 1 or many.
    std::shared_ptr<const void> keep;  ///< Owns an rvalue that was moved into a state dict.
    /// Set for a number kept in another type; the only shard is its memory.
    std::shared_ptr<shown_number> number{};
};

/// A value of the state that is not a tensor.
struct value_leaf {
    /// Returns the current value. Called only inside the verb's initiating call.
    std::function<value()> get;
    /// Sets the loaded value; throws @ref error if it does not fit. Empty: read-only.
    std::function<void(value)> set;
    /// Throws what `set` would throw for a value, and changes nothing. Empty: `set` cannot be
    /// checked in advance, or accepts any value.
    std::function<void(const value&)> check{};
    bool per_rank = false;  ///< Each rank has its own; see `per_rank`.
    bool optional = false;  ///< A checkpoint need not have it; see `node::set_optional`.
    /// The position in `flat_state::whole` of the `value` that it belongs to, if any.
    std::optional<std::size_t> part_of{};
};

/// A `value` of the state, which accepts whatever is stored under its name, in any form. Its own
/// leaves may differ from the stored ones: an empty mapping has none, and one with other keys has
/// others.
struct whole_value {
    std::string fqn;
    key_path path;
    value* content;                    ///< The user's.
    std::shared_ptr<const void> keep;  ///< Owns `content`, if the state dict does.
    bool optional = false;
    bool taken = false;  ///< Its leaves are those of the checkpoint.
};

/// A mapping or list without a tensor in it, which PyTorch up to 2.3 stored as one value and which
/// is several leaves in later versions. The older checkpoints contain its name instead of theirs.
struct older_leaf {
    std::string fqn;
    /// Sets the leaves from the loaded value; throws @ref error if it does not fit. What the value
    /// lacks is an error too if `missing` is null; otherwise the names are added to it, relative to
    /// `fqn`.
    std::function<void(const value&, std::vector<std::string>* missing)> set;
    /// The enclosing container, if that has no tensor either. PyTorch stored the outermost one of
    /// the state that was saved; the state that is loaded may be a part of that one.
    std::shared_ptr<const older_leaf> outer{};
    /// Throws what `set` would throw, and changes nothing. Empty as in @ref value_leaf.
    std::function<void(const value&, std::vector<std::string>* missing)> check{};
};

/// Returns a path as a flat name.
inline std::string joined(std::span<const path_element> path) {
    std::string s;
    for (auto const& step : path) {
        if (&step != path.data()) s += '.';
        if (auto const* key = std::get_if<std::string>(&step))
            s += *key;
        else
            s += std::to_string(std::get<std::int64_t>(step));
    }
    return s;
}

struct flat_leaf {
    std::string fqn;  ///< The path joined by dots.
    key_path path;
    std::variant<tensor_leaf, value_leaf> what;
    std::shared_ptr<const older_leaf> older{};  ///< The innermost; shared by its leaves.
    /// Names to look up if the checkpoint has no `fqn`: other names of a tied weight.
    std::vector<std::string> other_names{};
    /// The leaf of the state itself, while `what` is a number of the kind that the checkpoint has.
    std::shared_ptr<const std::variant<tensor_leaf, value_leaf>> own{};

    tensor_leaf* tensor() { return std::get_if<tensor_leaf>(&what); }
    const tensor_leaf* tensor() const { return std::get_if<tensor_leaf>(&what); }
    value_leaf* value() { return std::get_if<value_leaf>(&what); }
    const value_leaf* value() const { return std::get_if<value_leaf>(&what); }
    /// Whether it is stored under its name and the rank.
    bool per_rank() const { return tensor() != nullptr ? tensor()->per_rank : value()->per_rank; }
};

/// A state dict as a list of named leaves, in the order in which DCP's flattening visits them.
struct flat_state : std::vector<flat_leaf> {
    using std::vector<flat_leaf>::vector;

    std::vector<whole_value> whole{};  ///< Indexed by `value_leaf::part_of`.
};

}  // namespace cairn

#endif
