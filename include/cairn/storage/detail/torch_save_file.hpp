// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TORCH_SAVE_FILE_HPP
#define CAIRN_STORAGE_DETAIL_TORCH_SAVE_FILE_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/torch_save/metadata.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

inline format::read_at reads_of(open_file& file) {
    return heeding([&file](std::uint64_t at, std::span<std::byte> into) { file.read(at, into); });
}

/// Returns what a file of torch.save holds. It is parsed once for each open file.
/// @param threads  That read it.
inline const format::torch_save::content& torch_save_content(open_file& file, std::size_t threads) {
    using format::torch_save::content;
    return *file.once<std::shared_ptr<const content>>(
        [&] { return std::make_shared<const content>(reads_of(file), file.size(), threads); });
}

/// @throws error errc::corrupt if the file is not the one that the metadata describes
inline value read_torch_save_value(open_file& file, const std::string& fqn,
                                   const storage_location& at,
                                   const format::torch_save::content& all) {
    using format::torch_save::stored_value;
    auto const it = all.entries().find(fqn);
    auto const* v =
        it == all.entries().end() ? nullptr : std::get_if<stored_value>(&it->second.what);
    if (v == nullptr || all.parts().pickle_offset != at.offset ||
        all.parts().pickle.size() != at.length)
        throw error(errc::corrupt, {.fqn = fqn,
                                    .file = file.described(),
                                    .expected = "the value that the metadata describes",
                                    .found = "another file",
                                    .remedy = "load again: the file was replaced meanwhile"});
    return all.read_value(*v, reads_of(file));
}

/// Returns where the elements of a tensor are, from the metadata alone.
inline payload find_in_torch_save(open_file& file, const std::string& fqn, const tensor_metadata& t,
                                  std::size_t chunk) {
    namespace format = format::torch_save;
    auto const at = t.chunks.location(chunk);
    auto const has = [&](std::string_view what) {
        return std::find(at.transforms.begin(), at.transforms.end(), what) != at.transforms.end();
    };
    auto const size = size_of(t.type);
    if (!at.layout || at.layout->payload_offset % size != 0 ||
        !fits_in(at.layout->payload_offset, at.layout->payload_length, at.length))
        throw error(errc::corrupt, {.fqn = fqn,
                                    .file = file.described(),
                                    .expected = "a tensor within its storage",
                                    .found = "another layout"});
    auto const& l = *at.layout;
    payload p;
    p.type = t.type;
    p.shape = t.chunks.lengths(chunk);
    p.strides = l.strides;
    p.big_endian = has(format::big_endian);
    p.conjugate = has(format::conjugate);
    p.negative = has(format::negative);
    if (auto const& about = info(t.type);
        about.kind != dtype_class::complex &&
        (p.conjugate || (p.negative && about.kind != dtype_class::floating)))
        throw error(errc::unsupported,
                    {.expected = "a lazy view of complex or floating-point elements",
                     .found = std::string(about.name)});
    p.offset = at.offset;
    p.length = at.length;
    p.first = l.payload_offset / size;
    if (l.payload_crc != 0) p.crc = l.payload_crc;
    return p;
}

}  // namespace cairn::detail

#endif
