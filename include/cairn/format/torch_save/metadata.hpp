// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_METADATA_HPP
#define CAIRN_FORMAT_TORCH_SAVE_METADATA_HPP

#include <cairn/format/torch_save/content.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace cairn::format::torch_save {

/// What must be done to the stored elements, as transforms of a location.
inline constexpr std::string_view big_endian = "big_endian", conjugate = "conjugate",
                                  negative = "negative";

/// Returns the bytes from a tensor's first element to its last.
inline std::uint64_t span_of(const torch::called_tensor& t) {
    std::int64_t last = 0;  // within the storage, which was checked
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
        if (t.shape[d] == 0) return 0;
        last += (t.shape[d] - 1) * t.strides[d];
    }
    return (static_cast<std::uint64_t>(last) + 1) * size_of(t.type);
}

/// Describes a file's content as a checkpoint of one chunk a tensor: its location is that of the
/// storage. A value's is that of the pickle.
/// @param file  Its name, relative to the checkpoint.
inline metadata describe(const content& all, const std::string& file, std::uint64_t file_size) {
    metadata m;
    m.file_sizes[file] = file_size;
    m.text_keys = all.text_keys();
    auto const names = std::make_shared<file_names>();
    auto const number = names->add(file);
    auto const& parts = all.parts();
    for (auto const& [name, e] : all.entries()) {
        if (auto const* no = std::get_if<refused>(&e.what)) {
            m.unsupported[name] = {no->why, {}, {file}};
            continue;
        }
        if (!e.path.empty()) m.paths[name] = e.path;
        auto const* s = std::get_if<stored_tensor>(&e.what);
        if (s == nullptr) {
            value_metadata v;
            v.at.file = file;
            v.at.offset = parts.pickle_offset;
            v.at.length = parts.pickle.size();
            m.entries.emplace(name, std::move(v));
            continue;
        }
        tensor_metadata t;
        t.type = s->type;
        t.shape = s->shape;
        t.requires_grad = s->requires_grad;
        cairn::chunk c{box::whole(s->shape), {}};
        c.at.file = file;
        c.at.offset = s->at.offset;
        c.at.length = s->at.length;
        if (parts.big_endian) c.at.transforms.emplace_back(big_endian);
        if (s->conjugate) c.at.transforms.emplace_back(conjugate);
        if (s->negative) c.at.transforms.emplace_back(negative);
        c.at.layout = item_layout{s->storage_offset * size_of(s->type), span_of(*s), s->at.crc,
                                  s->at.crc, s->strides};
        t.chunks = chunk_list(names, t.shape.size());
        (void)t.chunks.add();
        t.chunks.set(0, c, number);
        m.entries.emplace(name, std::move(t));
    }
    return m;
}

}  // namespace cairn::format::torch_save

#endif
