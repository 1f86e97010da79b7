// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_NEW_ENTRY_HPP
#define CAIRN_FORMAT_TORCH_SAVE_NEW_ENTRY_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// A tensor that a file will have.
struct new_tensor {
    dtype type = dtype::float32;
    index_vector shape{};
    bool requires_grad = false;
    /// The name of a tensor with the same elements: one storage serves both. Empty: there is none.
    std::string tied_to{};
};
/// What a file will have under a name. An opaque value is the whole item of a value, as DCP or
/// @ref content stores it, and is written as it is, whether its class is known or not: so an
/// OrderedDict stays one, which it does not as a plain value.
struct new_entry {
    std::string fqn{};
    std::variant<new_tensor, value> what{};
};
using new_entries = std::vector<new_entry>;
/// As in @ref metadata.
using key_paths = std::map<std::string, key_path, std::less<>>;

}  // namespace cairn::format::torch_save

#endif
