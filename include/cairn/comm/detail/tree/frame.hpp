// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_FRAME_HPP
#define CAIRN_COMM_DETAIL_TREE_FRAME_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/exchange_kind.hpp>
#include <cairn/detail/wire.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A message between neighbours in the tree.
///
///     head, 40 bytes: magic "crnf" · what u8 · kind u8 · 2 bytes of 0 · lane u64 · round u64
///                     · root u32 · entries u32 · bytes of the note u64
///     table:          entries × (rank u32 · bytes u64)
///     note, then the bytes of each entry
struct tree_frame {
    enum class type : std::uint8_t {
        arrive = 1,  ///< Up: this rank and all below it have called; their bytes.
        result,      ///< Down: the exchange has ended; the results of the ranks below.
        abort,       ///< Both ways: the group has failed; why.
        late,        ///< Up: a deadline has passed. The note is the timeout.
        probe,       ///< Down: which ranks have not called? The note is the time to answer.
        missing,     ///< Up: the ranks that have not called.
        wait,        ///< Down: missing ranks make progress; the note is how much longer to wait.
        heartbeat,   ///< Both ways: alive.
        leave,       ///< Both ways: this rank takes part in no more exchanges of the lane.
        close        ///< Both ways, MPI only: this rank sends nothing more on any lane.
    };
    struct entry {
        int rank = 0;
        std::shared_ptr<message> bytes{};  ///< A sole owner may move it out.
    };

    type what = type::heartbeat;
    exchange_kind kind = exchange_kind::gather;
    int root = 0;
    std::uint64_t lane = 0;   ///< Identifies the group; each duplicate has its own.
    std::uint64_t round = 0;  ///< Index of the exchange on the lane, from 0.
    message note{};
    std::vector<entry> entries{};
};

inline constexpr std::size_t frame_head_bytes = 40;
inline constexpr std::size_t frame_entry_bytes = 12;
inline constexpr std::uint32_t frame_magic = 0x666e7263;
inline constexpr std::uint64_t largest_note = std::uint64_t{1} << 20;
inline constexpr std::uint32_t most_entries = 1u << 20;

/// A decoded head; the rest of the frame has not been read yet.
struct frame_head {
    tree_frame frame{};
    std::uint32_t entries = 0;
    std::uint64_t note = 0;

    /// Bytes of the table and the note, both small.
    std::size_t table_bytes() const {
        return entries * frame_entry_bytes + static_cast<std::size_t>(note);
    }
};

/// Head, table and note; the entries' bytes follow them on the wire.
inline message encode_frame_head(const tree_frame& f) {
    wire_writer w;
    w.reserve(frame_head_bytes + f.entries.size() * frame_entry_bytes + f.note.size());
    w.u32(frame_magic);
    w.u8(static_cast<std::uint8_t>(f.what));
    w.u8(static_cast<std::uint8_t>(f.kind));
    w.u8(0);
    w.u8(0);
    w.u64(f.lane);
    w.u64(f.round);
    w.u32(static_cast<std::uint32_t>(f.root));
    w.u32(static_cast<std::uint32_t>(f.entries.size()));
    w.u64(f.note.size());
    for (auto const& e : f.entries) {
        w.u32(static_cast<std::uint32_t>(e.rank));
        w.u64(e.bytes->size());
    }
    w.raw(f.note);
    return w.take();
}

/// @throws error errc::corrupt for bytes that no rank of this version sends
inline frame_head decode_frame_head(std::span<const std::byte> b) {
    wire_reader r(b);
    if (r.u32() != frame_magic) wire_reader::fail("bytes that no rank sends");
    frame_head h;
    auto const what = r.u8(), kind = r.u8();
    if (what < 1 || what > static_cast<std::uint8_t>(tree_frame::type::close) ||
        kind > static_cast<std::uint8_t>(exchange_kind::duplicate) || r.u8() != 0 || r.u8() != 0)
        wire_reader::fail("a message of an unknown kind");
    h.frame.what = static_cast<tree_frame::type>(what);
    h.frame.kind = static_cast<exchange_kind>(kind);
    h.frame.lane = r.u64();
    h.frame.round = r.u64();
    auto const root = r.u32();
    h.entries = r.u32();
    h.note = r.u64();
    if (root > INT32_MAX || h.entries > most_entries || h.note > largest_note)
        wire_reader::fail("a message that exceeds the size limit");
    h.frame.root = static_cast<int>(root);
    return h;
}

/// Fills in the note and the entries' ranks.
/// @return The length of each entry's bytes.
inline std::vector<std::uint64_t> decode_frame_table(frame_head& h, std::span<const std::byte> b) {
    wire_reader r(b);
    std::vector<std::uint64_t> lengths;
    lengths.reserve(h.entries);
    for (std::uint32_t i = 0; i < h.entries; ++i) {
        auto const rank = r.u32();
        lengths.push_back(r.u64());
        if (rank > INT32_MAX || lengths.back() > (std::uint64_t{1} << 48))
            wire_reader::fail("a message that exceeds the size limit");
        h.frame.entries.push_back({static_cast<int>(rank), nullptr});
    }
    auto const note = r.raw(static_cast<std::size_t>(h.note));
    h.frame.note.assign(note.begin(), note.end());
    return lengths;
}

/// A whole frame as one message, for transports that preserve message boundaries.
inline message encode_frame(const tree_frame& f) {
    auto out = encode_frame_head(f);
    for (auto const& e : f.entries) out.insert(out.end(), e.bytes->begin(), e.bytes->end());
    return out;
}

}  // namespace cairn::detail

#endif
