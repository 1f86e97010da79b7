// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_TORCH_SAVE_HPP
#define CAIRN_TEST_FUZZ_TORCH_SAVE_HPP

#include "items.hpp"

#include <cairn/format/torch_save/metadata.hpp>

#include <cstddef>
#include <string>
#include <variant>

/// Files of torch.save, in both forms.
namespace fuzz {

/// What is accepted lies within the file, has the name of its path, and can be read.
inline void torch_save(bytes b) {
    namespace ts = cairn::format::torch_save;
    __extension__ using wide = __int128;
    auto const source = reads(b);
    ts::content const all(source, b.size());
    for (auto const& [name, entry] : all.entries()) {
        std::string joined;
        for (auto const& step : entry.path) {
            if (&step != &entry.path.front()) joined += '.';
            auto const* text = std::get_if<std::string>(&step);
            joined += text != nullptr ? *text : std::to_string(std::get<std::int64_t>(step));
        }
        if (joined != name) throw support::finding("a path that is not the name");
        if (auto const* v = std::get_if<ts::stored_value>(&entry.what)) {
            auto const read = all.read_value(*v, source);
            auto const* o = read.get_if<cairn::value::opaque_t>();
            if (o != nullptr && !torch::decode_value(o->item()).is<cairn::value::opaque_t>())
                throw support::finding("an opaque value whose item is a plain one");
        }
        auto const* t = std::get_if<ts::stored_tensor>(&entry.what);
        if (t == nullptr) continue;
        wide last = t->storage_offset;
        bool none = false;
        for (std::size_t d = 0; d < t->shape.size(); ++d) {
            none = none || t->shape[d] == 0;
            last += wide(t->shape[d] - 1) * t->strides[d];
        }
        if (wide(t->at.offset) + t->at.length > b.size() ||
            (!none && (last + 1) * static_cast<wide>(cairn::size_of(t->type)) > t->at.length))
            throw support::finding("a tensor beyond its storage, or a storage beyond the file");
    }
    auto const m = ts::describe(all, "f.pt", b.size());
    if (m.entries.size() + m.unsupported.size() != all.entries().size())
        throw support::finding("metadata of other entries");
}

}  // namespace fuzz

#endif
