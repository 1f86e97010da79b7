// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_TENSOR_ITEM_HPP
#define CAIRN_FORMAT_TORCH_TENSOR_ITEM_HPP

#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch/storage_class.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::format::torch {

/// Describes a tensor to be written as an item.
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
    std::uint64_t suffix_length() const noexcept { return suffix_length_; }
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
    /// Returns the call that rebuilds the tensor, opcode for opcode as PyTorch's pickler writes it.
    static std::vector<std::byte> data_pkl(const tensor_spec& s) {
        auto const storage = storage_class_of(s.type);
        pickle::writer w;
        auto const number_tuple = [&](const index_vector& v) {
            w.begin_tuple(v.size());
            for (auto n : v) w.integer(n);
            if (w.end_tuple(v.size())) w.put();
        };
        w.global("torch._utils", storage.legacy ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
        w.put();
        w.mark();
        w.mark();
        w.string("storage");
        w.put();
        w.global(storage.legacy ? "torch" : "torch.storage", storage.name);
        w.put();
        w.string("0");
        w.put();
        w.string("cpu");
        w.put();
        w.integer(static_cast<std::int64_t>(storage.legacy ? s.storage_elements
                                                           : s.storage_elements * size_of(s.type)));
        w.op('t');
        w.put();
        w.op('Q');
        w.integer(0);
        number_tuple(s.shape);
        number_tuple(s.strides);
        w.boolean(false);
        w.global("collections", "OrderedDict");
        w.put();
        w.op(')');
        w.op('R');
        w.put();
        if (!storage.legacy) {
            w.global("torch", name_of(s.type));
            w.put();
        }
        w.op('t');
        w.put();
        w.op('R');
        w.put();
        return w.finish();
    }

    std::uint64_t payload_length_;
    std::uint64_t payload_offset_ = 0;
    std::uint64_t suffix_length_ = 0;
    std::uint32_t prefix_crc_ = 0;
    archive archive_;  ///< Up to the payload.
};

}  // namespace cairn::format::torch

#endif
