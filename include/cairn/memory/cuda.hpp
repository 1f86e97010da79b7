// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_CUDA_HPP
#define CAIRN_MEMORY_CUDA_HPP

#include <cairn/memory/cuda/basic_memory.hpp>
#include <cairn/memory/detail/cuda/runtime_api.hpp>

namespace cairn {

/// The memory of CUDA devices, a `MemorySpace`: a part of saves and loads of tensors there. Needs
/// the CUDA toolkit (Meson: `cairn_cuda_dep`).
///
/// `cuda_memory(stream)` for a state that one stream produces, `cuda_memory()` for the default
/// streams, `cuda_memory([](const cairn::const_tensor_view& t) { return …; })` for a stream per
/// tensor.
using cuda_memory = basic_cuda_memory<cuda_runtime_api>;
static_assert(MemorySpace<cuda_memory>);

}  // namespace cairn

#endif
