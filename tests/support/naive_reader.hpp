// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_NAIVE_READER_HPP
#define CAIRN_TEST_SUPPORT_NAIVE_READER_HPP

#include "crafted.hpp"
#include "promises.hpp"
#include "whole.hpp"

#include <cairn/format/torch/item.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace support {

/// Compares what was loaded with the files, element by element: no plan, no pieces, no threads.
/// Checksums are not looked at, and large or big-endian tensors are left out.
class naive_reader {
public:
    naive_reader(const crafted& c, const cairn::metadata& m) : c_(c), m_(m) {}

    void compare(const whole& w) const {
        for (auto const& [fqn, t] : w.tensors) {
            auto const* said = m_.tensor(fqn);
            if (said == nullptr || t.bytes.size() > 4096) continue;
            for (auto const& chunk : said->chunks) compare(fqn, t, chunk);
        }
        for (auto const& [fqn, v] : w.objects) {
            auto const* said = m_.value(fqn);
            if (said == nullptr) continue;
            auto const item = bytes_of(said->at);
            if (!(cairn::format::torch::decode_value(item) == v))
                throw finding("'" + fqn + "' is not the value in the file");
        }
    }

private:
    std::span<const std::byte> bytes_of(const cairn::storage_location& at) const {
        auto const it = c_.files.find(at.file);
        if (it == c_.files.end() ||
            !cairn::detail::fits_in(at.offset, at.length, it->second.size()))
            throw finding("an item outside of its file was loaded");
        return std::span(it->second)
            .subspan(static_cast<std::size_t>(at.offset), static_cast<std::size_t>(at.length));
    }
    void compare(const std::string& fqn, const whole::tensor& t, const cairn::chunk& c) const {
        if (c.region.empty()) return;
        auto const item = bytes_of(c.at);
        std::uint64_t at = 0, first = 0;
        cairn::index_vector strides;
        if (c.at.layout) {
            at = c.at.layout->payload_offset;
            strides = c.at.layout->strides;
        } else {
            cairn::format::read_at const source = [&](std::uint64_t from,
                                                      std::span<std::byte> into) {
                if (!cairn::detail::fits_in(from, into.size(), item.size()))
                    throw finding("an item reads beyond itself");
                if (!into.empty()) std::memcpy(into.data(), item.data() + from, into.size());
            };
            auto const p = cairn::format::torch::parse_tensor_item(source, item.size());
            if (p.big_endian) return;
            at = p.payload_offset;
            first = p.storage_offset;
            strides = p.strides;
        }
        auto const size = cairn::size_of(t.type);
        auto const rank = t.shape.size();
        cairn::index_vector index(rank, 0);
        for (auto left = c.region.volume(); left > 0; --left) {
            std::uint64_t from = first, to = 0;
            for (std::size_t d = 0; d < rank; ++d) {
                from += static_cast<std::uint64_t>(index[d] * strides[d]);
                to = to * static_cast<std::uint64_t>(t.shape[d]) +
                     static_cast<std::uint64_t>(index[d] + c.region.offsets[d]);
            }
            if (!cairn::detail::fits_in(at + from * size, size, item.size()) ||
                std::memcmp(item.data() + at + from * size, t.bytes.data() + to * size, size) != 0)
                throw finding("'" + fqn + "' is not what the file says");
            for (auto d = rank; d-- > 0;) {
                if (++index[d] < c.region.shape[d]) break;
                index[d] = 0;
            }
        }
    }

    const crafted& c_;
    const cairn::metadata& m_;
};

}  // namespace support

#endif
