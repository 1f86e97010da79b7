// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_TENSOR_ITEM_HPP
#define CAIRN_FORMAT_TORCH_TENSOR_ITEM_HPP

#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch/tensor_pickle.hpp>
#include <cairn/format/torch/value_pickler.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::format::torch {

/// One tensor as torch.save writes it: a prefix, the payload, and a suffix that needs the payload's
/// CRC. Lengths are known before any byte of the payload is read.
class tensor_item {
public:
    explicit tensor_item(const tensor_spec& s)
        : payload_length_(s.storage_elements * size_of(s.type)) {
        archive_.add_preamble(data_pkl(s));
        archive_.begin("data/0", payload_length_, s.payload_alignment);
        payload_offset_ = archive_.position();
        suffix_length_ = suffix(0).size();
        prefix_crc_ = crc32(prefix());
    }

    std::span<const std::byte> prefix() const noexcept { return archive_.bytes(); }
    std::uint64_t payload_offset() const noexcept { return payload_offset_; }
    std::uint64_t payload_length() const noexcept { return payload_length_; }
    std::uint64_t length() const noexcept {
        return payload_offset_ + payload_length_ + suffix_length_;
    }
    std::vector<std::byte> suffix(std::uint32_t payload_crc) const {
        auto a = archive_.rest();
        a.end_payload(payload_crc);
        a.finish(tensor_names_hash);
        return a.take();
    }
    /// Returns the CRC-32 of the whole item.
    std::uint32_t item_crc(std::uint32_t payload_crc) const {
        return item_crc(payload_crc, suffix(payload_crc));
    }
    /// @param s  The suffix.
    std::uint32_t item_crc(std::uint32_t payload_crc, const std::vector<std::byte>& s) const {
        auto const c = crc32_combine(prefix_crc_, payload_crc, payload_length_);
        return crc32_combine(c, crc32(s), s.size());
    }

private:
    static std::vector<std::byte> data_pkl(const tensor_spec& s) {
        value_pickler p;
        write_tensor(p, s, false, [&] { p.literal("0"); });
        return p.out().finish();
    }

    std::uint64_t payload_length_;
    std::uint64_t payload_offset_ = 0;
    std::uint64_t suffix_length_ = 0;
    std::uint32_t prefix_crc_ = 0;
    archive archive_;  ///< Up to the payload.
};

}  // namespace cairn::format::torch

#endif
