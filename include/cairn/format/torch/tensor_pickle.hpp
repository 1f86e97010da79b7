// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_TENSOR_PICKLE_HPP
#define CAIRN_FORMAT_TORCH_TENSOR_PICKLE_HPP

#include <cairn/format/torch/storage_class.hpp>
#include <cairn/format/torch/value_pickler.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <functional>
#include <string_view>

namespace cairn::format::torch {

/// Describes a tensor to be written.
struct tensor_spec {
    dtype type = dtype::float32;
    index_vector shape{};
    index_vector strides{};              ///< Of the payload, in elements.
    std::uint64_t storage_elements = 0;  ///< Elements of the payload.
    /// The payload begins at a multiple of this from the item's start: a power of two from 64 to
    /// 32768. With 64 the item is byte-identical to PyTorch 2.14's.
    std::uint32_t payload_alignment = 64;

    friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// Writes the persistent id of a storage.
/// @param count      Of elements; of bytes if it is untyped.
/// @param write_key  Writes the key, a str.
inline void write_storage(value_pickler& p, std::string_view module, std::string_view name,
                          std::uint64_t count, const std::function<void()>& write_key) {
    auto& w = p.out();
    w.mark();
    p.literal("storage");
    p.global(module, name);
    write_key();
    p.literal("cpu");
    w.integer(static_cast<std::int64_t>(count));
    w.op('t');
    w.put();
    w.op('Q');
}

/// Writes the call that rebuilds a tensor, opcode for opcode as PyTorch's pickler writes it.
inline void write_tensor(value_pickler& p, const tensor_spec& s, bool requires_grad,
                         const std::function<void()>& write_key) {
    auto const storage = storage_class_of(s.type);
    auto& w = p.out();
    auto const number_tuple = [&](const index_vector& v) {
        w.begin_tuple(v.size());
        for (auto n : v) w.integer(n);
        if (w.end_tuple(v.size())) w.put();
    };
    p.global("torch._utils", storage.legacy ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    w.mark();
    write_storage(p, storage.legacy ? "torch" : "torch.storage", storage.name,
                  storage.legacy ? s.storage_elements : s.storage_elements * size_of(s.type),
                  write_key);
    w.integer(0);
    number_tuple(s.shape);
    number_tuple(s.strides);
    w.boolean(requires_grad);
    p.global("collections", "OrderedDict");
    w.op(')');
    w.op('R');
    w.put();
    if (!storage.legacy) p.global("torch", name_of(s.type));
    w.op('t');
    w.put();
    w.op('R');
    w.put();
}

}  // namespace cairn::format::torch

#endif
