// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TARGET_FILE_HPP
#define CAIRN_FORMAT_TARGET_FILE_HPP

#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Files whose every byte has a place before the first is written.
namespace cairn::format {

/// A tensor of such a file: all elements in row-major order, without gaps.
struct target_tensor {
    std::string fqn{};
    dtype type = dtype::float32;
    index_vector shape{};
    std::uint64_t offset = 0;  ///< Of the first element, in the file.
};

/// Bytes that have their place in a file.
struct placed_bytes {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes{};
};

/// What it consists of besides the elements is known to the layout of its format.
struct target_file {
    std::string name{};  ///< In the directory of the checkpoint.
    std::uint64_t size = 0;
    std::vector<target_tensor> tensors{};  ///< In the order of their offsets.
};

}  // namespace cairn::format

#endif
