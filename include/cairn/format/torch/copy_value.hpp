// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_COPY_VALUE_HPP
#define CAIRN_FORMAT_TORCH_COPY_VALUE_HPP

#include <cairn/error.hpp>
#include <cairn/format/pickle/copy.hpp>
#include <cairn/format/pickle/tree.hpp>
#include <cairn/format/torch/tensor_call.hpp>
#include <cairn/format/torch/tensor_pickle.hpp>
#include <cairn/format/torch/value_pickler.hpp>
#include <cairn/format/unfolding.hpp>

#include <functional>

namespace cairn::format::torch {

/// Writes a value, a part of a pickle, as torch.save writes it today: storages are on the CPU, and
/// their ids have five members. Old files have six, which PyTorch reads in no other file.
/// @param write_key  Writes the new key of a storage, a str.
/// @throws error errc::unsupported as @ref pickle::copier does, and for a view of a storage in an
/// old file: the offsets of its tensors are not those within the storage
inline void copy_value(const pickle::tree& t, pickle::node_id value, unfolding& budget,
                       value_pickler& p,
                       const std::function<void(const named_storage&)>& write_key) {
    pickle::copier copy(t, budget, p.out(), [&](pickle::node_id i) {
        auto const s = storage_of(t, i);
        auto const [module, name] = t.class_parts(s ? t.children(t.children(i)[0])[1] : i);
        // A name with a line break would write opcodes into the copy.
        if (name.empty() || name.find('\n') != name.npos)
            throw error(errc::unsupported, {.expected = "storages as torch.save names them",
                                            .found = "something else"});
        auto const id = t.children(t.children(i)[0]);
        if (id.size() > 5 && t.kind(id[5]) != pickle::node_kind::none)
            throw error(errc::unsupported, {.expected = "tensors in whole storages",
                                            .found = "a view of a storage, in an old file"});
        write_storage(p, module, name, s->bytes / s->element, [&] { write_key(*s); });
    });
    copy(value);
}

}  // namespace cairn::format::torch

#endif
