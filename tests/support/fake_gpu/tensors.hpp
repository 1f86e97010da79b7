// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_GPU_TENSORS_HPP
#define CAIRN_TEST_SUPPORT_FAKE_GPU_TENSORS_HPP

#include "support/fake_gpu/cuda.hpp"

#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

/// Tensors of float32 on the fake's devices.
namespace support {

inline cairn::index_vector row_major(const cairn::index_vector& shape) {
    return cairn::row_major_strides(shape);
}

/// A tensor at the beginning of an allocation, which may have gaps.
struct device_tensor {
    device_tensor(fake_gpu& g, int device, cairn::index_vector shape, cairn::index_vector strides)
        : gpu(g) {
        std::int64_t last = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
        memory.resize(shape.product() == 0 ? 0 : static_cast<std::size_t>(last + 1));
        at = gpu.allocate(device, bytes());
        view = {cairn::dtype::f32, std::move(shape), std::move(strides), at, on_gpu(device)};
    }
    device_tensor(fake_gpu& g, int device, const cairn::index_vector& shape)
        : device_tensor(g, device, shape, row_major(shape)) {}
    device_tensor(device_tensor&&) = delete;

    std::size_t bytes() const { return memory.size() * sizeof(float); }
    /// The same tensor in a copy of its memory on the host.
    cairn::tensor_view on_host(std::vector<float>& copy) const {
        return {view.type, view.shape, view.strides, copy.data()};
    }
    /// A kernel sets all of its memory, gaps included, to `first`, `first + 1`, ….
    gpu::work_ptr produce(gpu::stream* s, float first, bool held = false) {
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = first + static_cast<float>(i);
        return gpu.launch(
            s, "a kernel that writes", {{at, at + bytes(), true}},
            [this, content = memory] {
                if (!content.empty())
                    std::memcpy(gpu.bytes_of(at, bytes()), content.data(), bytes());
            },
            held);
    }
    /// The device's memory as it is now.
    std::vector<float> now() const {
        std::vector<float> v(memory.size());
        auto const b = gpu.read(at, bytes());
        if (!b.empty()) std::memcpy(v.data(), b.data(), b.size());
        return v;
    }
    /// The elements, row-major, of a copy of its memory.
    std::vector<float> elements(std::vector<float> all) const {
        std::vector<float> out(static_cast<std::size_t>(view.elements()));
        cairn::copy_elements(on_host(all), cairn::tensor_view(view.type, view.shape, out.data()));
        return out;
    }
    std::vector<float> elements() const { return elements(now()); }
    std::vector<float> produced() const { return elements(memory); }

    fake_gpu& gpu;
    std::vector<float> memory{};  ///< What the last kernel has written, or will.
    std::byte* at = nullptr;
    cairn::tensor_view view{};
};

}  // namespace support

#endif
