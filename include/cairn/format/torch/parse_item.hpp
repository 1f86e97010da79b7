// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_PARSE_ITEM_HPP
#define CAIRN_FORMAT_TORCH_PARSE_ITEM_HPP

#include <cairn/format/torch/tensor_call.hpp>
#include <cairn/format/torch/value_item.hpp>

#include <cstdint>
#include <string>

namespace cairn::format::torch {

/// The result of parsing a tensor's item.
struct parsed_tensor : called_tensor {
    std::uint64_t payload_offset = 0;  ///< In bytes, from the item's start.
    std::uint64_t payload_length = 0;
    std::uint32_t payload_crc = 0;  ///< To be checked by the caller: the payload is not read here.
    bool checked = true;            ///< False: neither the item nor its payload has checksums.
    bool big_endian = false;
};

/// Finds the payload in a tensor's item, and checks the CRC of every other record.
/// @throws error errc::corrupt, errc::checksum_mismatch; errc::unsupported for anything that is
/// not a plain dense tensor of a known dtype.
inline parsed_tensor parse_tensor_item(const read_at& source, std::uint64_t length) {
    auto const r = item_records::read(source, length, std::uint64_t{64} << 10);
    auto const t = pickle::reader::read(r.pickle);
    parsed_tensor p{tensor_call(t, t.root).result()};
    if (p.conjugate || p.negative)
        throw error(errc::unsupported,
                    {.expected = "a plain dense tensor", .found = "a conjugate or negative view"});
    auto const record = "data/" + std::string(p.storage);
    p.storage = {};  // a window on what goes now
    p.big_endian = r.big_endian;
    p.checked = r.checked;
    for (auto const& e : r.entries) {
        if (e.name != record) continue;
        if (e.size != p.storage_bytes) {
            throw error(errc::corrupt,
                        {.expected = "a storage of " + std::to_string(p.storage_bytes) + " bytes",
                         .found = std::to_string(e.size) + " bytes"});
        }
        p.payload_offset = e.data;
        p.payload_length = e.size;
        p.payload_crc = e.crc;
        return p;
    }
    throw error(errc::corrupt, {.expected = "a record '" + record + "'", .found = "none"});
}

}  // namespace cairn::format::torch

#endif
