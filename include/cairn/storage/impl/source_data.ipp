// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SOURCE_DATA_IPP
#define CAIRN_STORAGE_IMPL_SOURCE_DATA_IPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/storage/detail/source_data.hpp>
#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace cairn::detail {

CAIRN_DECL item_data source_data::resolve(source_pieces& from, const write_item& item) {
    if (item.kind == item_kind::value) return &values_.emplace_back(from.read_value(item.fqn));
    if (!item.tied_to.empty()) return by_box_.at({item.tied_to, item.region.offsets});
    auto& s = sources_.emplace_back(tensor_source{item.type, item.region.shape});
    auto const* t = from.meta().tensor(item.fqn);
    s.read = [&from, fqn = item.fqn, region = item.region, type = item.type](
                 std::uint64_t at, std::span<std::byte> into) {
        from.read(fqn, region, type, at, into);
    };
    if (item.type == t->type && item.region == box::whole(t->shape) && from.crc(item.fqn)) {
        s.read_unchecked = [&from, fqn = item.fqn](std::uint64_t at, std::span<std::byte> into) {
            from.read_unchecked(fqn, at, into);
        };
        s.check = [&from, fqn = item.fqn](std::uint32_t crc) { from.check(fqn, crc); };
    }
    by_box_.emplace(std::pair(item.fqn, item.region.offsets), &s);
    return &s;
}

}  // namespace cairn::detail

#endif
