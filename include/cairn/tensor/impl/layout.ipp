// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_LAYOUT_IPP
#define CAIRN_TENSOR_IMPL_LAYOUT_IPP

#include <cairn/tensor/layout.hpp>

#include <cairn/tensor/detail/paired_nest.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

namespace cairn::detail {

CAIRN_DECL bool is_dense(const index_vector& shape, const index_vector& strides) {
    const std::int64_t* const extent = shape.data();
    const std::int64_t* const stride = strides.data();
    index_vector ordered(shape.size(), 0);  // dimensions, by ascending stride
    std::int64_t* const order = ordered.data();
    std::size_t n = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (extent[d] == 1) continue;
        std::size_t at = n++;
        for (; at > 0 && stride[order[at - 1]] > stride[d]; --at) order[at] = order[at - 1];
        order[at] = static_cast<std::int64_t>(d);
    }
    std::int64_t expected = 1;
    for (std::size_t i = 0; i < n; ++i) {
        if (stride[order[i]] != expected) return false;
        expected *= extent[order[i]];
    }
    return true;
}

CAIRN_DECL bool elements_overlap(const index_vector& shape, const index_vector& strides) {
    for (auto const n : shape)
        if (n == 0) return false;
    auto const size = [](std::int64_t stride) {
        return stride < 0 ? 0 - static_cast<std::uint64_t>(stride)
                          : static_cast<std::uint64_t>(stride);
    };
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        auto const a = size(strides[d]);
        if (a == 0) return true;
        for (std::size_t e = 0; e < d; ++e) {
            auto const b = size(strides[e]);
            if (shape[e] == 1 || b == 0) continue;
            // b / common steps along one dimension lead as far as a / common along the other.
            auto const common = std::gcd(a, b);
            if (b / common < static_cast<std::uint64_t>(shape[d]) &&
                a / common < static_cast<std::uint64_t>(shape[e]))
                return true;
        }
    }
    return false;
}

CAIRN_DECL std::pair<std::uintptr_t, std::uintptr_t> address_range(const const_tensor_view& v) {
    if (v.empty()) return {};
    auto const first = reinterpret_cast<std::uintptr_t>(v.data);
    auto low = first, high = first + size_of(v.type);
    for (std::size_t d = 0; d < v.shape.size(); ++d) {
        auto const steps = static_cast<std::uintptr_t>(v.shape[d] - 1) * size_of(v.type);
        (v.strides[d] < 0 ? low : high) += steps * static_cast<std::uintptr_t>(v.strides[d]);
    }
    return {low, high};
}

CAIRN_DECL std::int64_t offset_of(const box& part, const index_vector& shape,
                                  const index_vector& strides) {
    bool fits = part.rank() == shape.size() && part.offsets.size() == part.rank();
    for (std::size_t d = 0; fits && d < part.rank(); ++d)
        fits = part.offsets[d] >= 0 && part.shape[d] >= 0 && part.offsets[d] <= shape[d] &&
               part.shape[d] <= shape[d] - part.offsets[d];
    if (!fits)
        throw error(errc::invalid_argument, {.expected = "a box within " + to_string(shape),
                                             .found = "offsets " + to_string(part.offsets) +
                                                      ", shape " + to_string(part.shape)});
    std::int64_t at = 0;
    if (part.empty()) return at;
    for (std::size_t d = 0; d < part.rank(); ++d) at += part.offsets[d] * strides[d];
    return at;
}

CAIRN_DECL void copy_part(const const_tensor_view& from, const tensor_view& to,
                          std::uint64_t of_bytes) {
    if (from.type != to.type)
        throw error(errc::dtype_mismatch, {.expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type))});
    check_host_memory(from, to);
    const paired_nest nest = make_nest(from, to);
    if (!to.empty()) copy_nest(nest, size_of(to.type), of_bytes);
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void copy_elements(const const_tensor_view& from, const tensor_view& to) {
    detail::copy_part(from, to, 0);
}

}  // namespace cairn

#endif
