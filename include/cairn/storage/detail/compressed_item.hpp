// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_COMPRESSED_ITEM_HPP
#define CAIRN_STORAGE_DETAIL_COMPRESSED_ITEM_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/detail/fits_in.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/torch/parse_item.hpp>
#include <cairn/format/zstd.hpp>
#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/open_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace cairn::detail {

/// An item of zstd frames, decoded front to back, and again from the beginning if bytes are
/// wanted that were passed.
///
/// Memory: that of a frame's window, of a piece, and of the item's ends.
class compressed_item {
public:
    /// @param length  Of the frames.
    /// @param most    Maximum number of decoded bytes.
    /// @param beyond  Of the error if there are more.
    compressed_item(std::uint64_t offset, std::uint64_t length, std::uint64_t most,
                    errc beyond = errc::corrupt)
        : offset_(offset), length_(length), most_(most), beyond_(beyond) {}

    /// Reads decoded bytes.
    void read(open_file& file, std::uint64_t at, std::span<std::byte> into) {
        if (at < at_) end();
        byte_vector skipped(static_cast<std::size_t>(std::min(at - at_, piece_bytes)));
        while (at_ != at) decode_all(file, first_of(skipped, at - at_));
        decode_all(file, into);
    }
    /// Decodes what is left.
    /// @return The CRC-32 of the frames.
    std::uint32_t finish(open_file& file) {
        byte_vector rest(static_cast<std::size_t>(piece_bytes));
        while (decode(file, rest) != 0) {
        }
        auto const crc = crc_;
        end();
        return crc;
    }
    /// Reads all of it; the memory grows with what is decoded, whatever a frame says.
    /// @param crc  Set to the CRC-32 of the frames.
    byte_vector whole(open_file& file, std::uint32_t& crc) {
        // Weights are compressed to little less than they are; more than this grows as needed.
        constexpr std::uint64_t usual_ratio = 8;
        byte_vector item;
        item.reserve(static_cast<std::size_t>(length_ < most_ / usual_ratio ? length_ * usual_ratio
                                                                            : most_));
        for (std::size_t n = 1; n != 0;) {
            auto const before = item.size();
            // Room for some bytes, one of which may be one too many.
            item.resize(before +
                        static_cast<std::size_t>(std::min(piece_bytes - 1, most_ - before) + 1));
            n = decode(file, std::span(item).subspan(before));
            item.resize(before + n);
        }
        crc = crc_;
        return item;
    }
    /// Finds the elements of a tensor, which the end of its item says. The first call decodes it.
    /// @param crc  Set by this to the CRC-32 of the frames.
    const format::torch::parsed_tensor& parsed(open_file& file, std::uint32_t& crc) {
        if (parsed_) return *parsed_;
        byte_vector head, tail, piece(static_cast<std::size_t>(piece_bytes));
        while (auto const n = decode(file, piece)) {
            auto const some = byte_span(piece).first(n);
            append(head, some.first(std::min(n, ends_bytes - head.size())));
            append(tail, some);
            if (tail.size() > ends_bytes)
                tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(ends_bytes));
        }
        auto const size = at_;
        parsed_ = format::torch::parse_tensor_item(
            [&](std::uint64_t at, std::span<std::byte> into) {
                auto const behind = size - tail.size();
                if (fits_in(at, into.size(), head.size())) return copy(head, at, into);
                if (at < behind || !fits_in(at - behind, into.size(), tail.size()))
                    throw error(errc::corrupt,
                                {.expected = "a tensor's elements, and little around them",
                                 .found = "an item of another form"});
                copy(tail, at - behind, into);
            },
            size);
        crc = crc_;
        end();
        return *parsed_;
    }

    /// Whether it holds nothing but what was parsed: the next read begins at the first byte.
    bool has_ended() const noexcept { return !frames_; }

private:
    static constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
    /// At least what an item has besides its payload, before or behind it.
    static constexpr std::size_t ends_bytes = std::size_t{most_item_bytes(0)};

    static std::span<std::byte> first_of(byte_vector& b, std::uint64_t n) {
        return std::span(b).first(static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), n)));
    }
    static void append(byte_vector& to, byte_span b) { to.insert(to.end(), b.begin(), b.end()); }
    static void copy(const byte_vector& from, std::uint64_t at, std::span<std::byte> into) {
        if (!into.empty()) std::memcpy(into.data(), from.data() + at, into.size());
    }

    /// Gives the memory back; what is decoded next is the first byte.
    void end() {
        frames_.reset();
        compressed_ = {};
        left_ = {};
        taken_ = at_ = 0;
        crc_ = 0;
    }
    void decode_all(open_file& file, std::span<std::byte> into) {
        if (decode(file, into) != into.size())
            throw error(errc::corrupt, {.expected = "a tensor's elements within its item",
                                        .found = "one of " + counted(at_, "byte")});
    }
    /// Decodes the next bytes.
    /// @return How many; fewer than wanted: the last frame has ended.
    std::size_t decode(open_file& file, std::span<std::byte> into) {
        if (!frames_) frames_.emplace(most_, beyond_);
        std::size_t done = 0;
        while (done != into.size()) {
            bool const all_taken = left_.empty() && taken_ == length_;
            if (all_taken && frames_->has_ended()) break;
            if (left_.empty() && taken_ != length_) {
                compressed_.resize(
                    static_cast<std::size_t>(std::min(piece_bytes, length_ - taken_)));
                file.read(offset_ + taken_, compressed_);
                crc_ = format::crc32(compressed_, crc_);
                taken_ += compressed_.size();
                left_ = compressed_;
            }
            auto const n = frames_->decode(left_, into.subspan(done));
            if (n == 0 && all_taken) frames_->check_end();
            done += n;
        }
        at_ += done;
        return done;
    }

    std::uint64_t offset_, length_, most_;
    errc beyond_;
    std::optional<format::zstd::decoder> frames_{};
    byte_vector compressed_{};
    byte_span left_{};         ///< Of these, what the decoder has not taken.
    std::uint64_t taken_ = 0;  ///< Bytes of the frames that were read.
    std::uint32_t crc_ = 0;    ///< Of these.
    std::uint64_t at_ = 0;     ///< Bytes that were decoded.
    std::optional<format::torch::parsed_tensor> parsed_{};
};

}  // namespace cairn::detail

#endif
