// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_ROW_MAJOR_PAYLOAD_HPP
#define CAIRN_STORAGE_DETAIL_ROW_MAJOR_PAYLOAD_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn::detail {

/// The payload of a chunk that is stored as it is.
inline payload row_major_payload(open_file& file, const std::string& fqn, const tensor_metadata& t,
                                 std::size_t chunk) {
    auto const at = t.chunks.location(chunk);
    payload p;
    p.type = t.type;
    p.shape = t.chunks.lengths(chunk);
    p.strides = row_major_strides(p.shape);
    p.offset = at.offset;
    p.length = at.length;
    if (at.layout && at.layout->payload_crc != 0) {
        p.crc = at.layout->payload_crc;
        p.parts_unchecked = true;
    }
    auto const bytes = static_cast<std::uint64_t>(p.shape.product()) * size_of(p.type);
    if (bytes == p.length && at.transforms.empty()) return p;
    throw error(at.transforms.empty() ? errc::corrupt : errc::unsupported,
                {.fqn = fqn,
                 .file = file.described(),
                 .expected = std::to_string(bytes) + " bytes of " + std::string(name_of(p.type)) +
                             " of shape " + to_string(p.shape),
                 .found = at.transforms.empty() ? std::to_string(p.length) + " bytes"
                                                : "bytes transformed by " + at.transforms[0]});
}

}  // namespace cairn::detail

#endif
