// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_FRAME_ASSEMBLER_HPP
#define CAIRN_COMM_DETAIL_TREE_FRAME_ASSEMBLER_HPP

#include <cairn/comm/detail/tree/frame.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Assembles a frame from pieces. The first piece of each frame contains its head, table and note.
/// Memory grows with the bytes received, not with the size announced.
class frame_assembler {
public:
    /// @param b  The next piece: it begins a frame or continues the current one.
    /// @return The frame, with its last piece.
    /// @throws error errc::corrupt
    std::optional<tree_frame> add(std::span<const std::byte> b) {
        if (!open_) b = begin(b);
        for (; at_ < lengths_.size(); ++at_) {
            auto& part = head_.frame.entries[at_].bytes;
            if (!part) part = std::make_shared<message>();
            auto const missing = lengths_[at_] - part->size();
            auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(missing, b.size()));
            part->insert(part->end(), b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n));
            b = b.subspan(n);
            if (n != missing) return {};
        }
        open_ = false;
        if (!b.empty()) wire_reader::fail("more bytes than announced");
        return std::move(head_.frame);
    }

private:
    std::span<const std::byte> begin(std::span<const std::byte> b) {
        if (b.size() < frame_head_bytes) wire_reader::fail("fewer bytes than announced");
        head_ = decode_frame_head(b.first(frame_head_bytes));
        b = b.subspan(frame_head_bytes);
        if (b.size() < head_.table_bytes()) wire_reader::fail("fewer bytes than announced");
        lengths_ = decode_frame_table(head_, b.first(head_.table_bytes()));
        at_ = 0;
        open_ = true;
        return b.subspan(head_.table_bytes());
    }

    bool open_ = false;
    frame_head head_{};
    std::vector<std::uint64_t> lengths_{};
    std::size_t at_ = 0;  ///< Position in the entry being filled.
};

/// Decodes a whole frame in one piece.
inline tree_frame decode_frame(std::span<const std::byte> b) {
    frame_assembler a;
    if (auto f = a.add(b)) return std::move(*f);
    wire_reader::fail("fewer bytes than announced");
}

}  // namespace cairn::detail

#endif
