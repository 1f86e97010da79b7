// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_COPY_TO_HOST_HPP
#define CAIRN_MEMORY_COPY_TO_HOST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <span>

namespace cairn {

/// One array to be copied to another of the same dtype and shape.
struct host_copy {
    const_tensor_view from;
    tensor_view to;
};

struct host_copy_options {
    /// Threads that copy, the calling thread included; 0 is 1. They live as long as the call.
    unsigned threads = 1;
    /// @ref store_hint. If a checksum of the copy follows at once and it is small: `cached`.
    store_hint stores = store_hint::streaming;
    /// The size of the pieces that threads take in turn. Smaller copies are made as one.
    std::size_t piece_bytes = std::size_t{4} << 20;
};

/// Copies arrays of host memory, with any strides that @ref copy_elements supports. Contiguous runs
/// are copied as such. Afterwards any thread that synchronises with this one can read them.
/// @pre No target overlaps another array.
/// @throws error dtype_mismatch, shape_mismatch, or invalid_argument (a target with stride 0);
/// unsupported for the memory of a device, which a queue of its memory space copies. All arrays are
/// checked first: nothing has been copied then.
CAIRN_DECL void copy_to_host(std::span<const host_copy> copies, const host_copy_options& o = {});
CAIRN_DECL void copy_to_host(const const_tensor_view& from, const tensor_view& to,
                             const host_copy_options& o = {});

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/memory/impl/copy_to_host.ipp>
#endif

#endif
