// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_FRAME_HPP
#define CAIRN_COMM_TREE_FRAME_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/exchange_kind.hpp>
#include <cairn/detail/failures.hpp>
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

/// What neighbours in the tree say to each other.
///
///     head, 40 bytes: magic "crnf" · what u8 · kind u8 · 2 bytes of 0 · epoch u64 · round u64
///                     · root u32 · entries u32 · bytes of the note u64
///     table:          entries × (rank u32 · bytes u64)
///     note, then the bytes of each entry
struct tree_frame {
    enum class type : std::uint8_t {
        arrive = 1,  ///< Up: this rank and all below it have called; their bytes.
        result,      ///< Down: the exchange is over; what those below get.
        abort,       ///< Both ways: the group is broken; why.
        late,        ///< Up: a deadline has passed. The note is how long that was.
        ask,         ///< Down: who has not called? The note is how long there is to answer.
        missing,     ///< Up: these have not.
        wait,        ///< Down: those who are missing work on; the note is by how long to wait.
        beat,        ///< Both ways: alive.
        leave        ///< Both ways: this rank ends its part in the group.
    };
    struct entry {
        int rank = 0;
        std::shared_ptr<message> bytes{};  ///< Whoever holds it alone may take it.
    };

    type what = type::beat;
    exchange_kind kind = exchange_kind::barrier;
    int root = 0;
    std::uint64_t epoch = 0;  ///< Of the group: frames of another are refused.
    std::uint64_t round = 0;  ///< Which exchange of the group, from 0.
    message note{};
    std::vector<entry> entries{};
};

inline constexpr std::size_t frame_head_bytes = 40;
inline constexpr std::size_t frame_entry_bytes = 12;
inline constexpr std::uint32_t frame_magic = 0x666e7263;
inline constexpr std::uint64_t largest_note = std::uint64_t{1} << 20;
inline constexpr std::uint32_t most_entries = 1u << 20;

/// What a head announces; nothing behind it has been read yet.
struct frame_head {
    tree_frame frame{};
    std::uint32_t entries = 0;
    std::uint64_t note = 0;

    /// Bytes of the table and the note, which are small.
    std::size_t table_bytes() const {
        return entries * frame_entry_bytes + static_cast<std::size_t>(note);
    }
};

/// Head, table and note; the entries' bytes follow them on the wire.
inline message encode_frame_head(const tree_frame& f) {
    wire_writer w;
    w.out.reserve(frame_head_bytes + f.entries.size() * frame_entry_bytes + f.note.size());
    w.u32(frame_magic);
    w.u8(static_cast<std::uint8_t>(f.what));
    w.u8(static_cast<std::uint8_t>(f.kind));
    w.u8(0);
    w.u8(0);
    w.u64(f.epoch);
    w.u64(f.round);
    w.u32(static_cast<std::uint32_t>(f.root));
    w.u32(static_cast<std::uint32_t>(f.entries.size()));
    w.u64(f.note.size());
    for (auto const& e : f.entries) {
        w.u32(static_cast<std::uint32_t>(e.rank));
        w.u64(e.bytes->size());
    }
    w.raw(f.note);
    return std::move(w.out);
}

/// @throws error errc::corrupt for bytes that no rank of this version sends
inline frame_head decode_frame_head(std::span<const std::byte> b) {
    wire_reader r(b);
    if (r.u32() != frame_magic) wire_reader::fail("bytes that no rank sends");
    frame_head h;
    auto const what = r.u8(), kind = r.u8();
    if (what < 1 || what > static_cast<std::uint8_t>(tree_frame::type::leave) ||
        kind > static_cast<std::uint8_t>(exchange_kind::barrier) || r.u8() != 0 || r.u8() != 0)
        wire_reader::fail("a message of an unknown kind");
    h.frame.what = static_cast<tree_frame::type>(what);
    h.frame.kind = static_cast<exchange_kind>(kind);
    h.frame.epoch = r.u64();
    h.frame.round = r.u64();
    auto const root = r.u32();
    h.entries = r.u32();
    h.note = r.u64();
    if (root > INT32_MAX || h.entries > most_entries || h.note > largest_note)
        wire_reader::fail("a message beyond all bounds");
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
            wire_reader::fail("a message beyond all bounds");
        h.frame.entries.push_back({static_cast<int>(rank), nullptr});
    }
    auto const note = r.raw(static_cast<std::size_t>(h.note));
    h.frame.note.assign(note.begin(), note.end());
    return lengths;
}

/// A whole frame as one message, for transports that keep boundaries themselves.
inline message encode_frame(const tree_frame& f) {
    auto out = encode_frame_head(f);
    for (auto const& e : f.entries) out.insert(out.end(), e.bytes->begin(), e.bytes->end());
    return out;
}
inline tree_frame decode_frame(std::span<const std::byte> b) {
    if (b.size() < frame_head_bytes) wire_reader::fail("fewer bytes than announced");
    auto h = decode_frame_head(b.first(frame_head_bytes));
    b = b.subspan(frame_head_bytes);
    if (b.size() < h.table_bytes()) wire_reader::fail("fewer bytes than announced");
    auto const lengths = decode_frame_table(h, b.first(h.table_bytes()));
    b = b.subspan(h.table_bytes());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (b.size() < lengths[i]) wire_reader::fail("fewer bytes than announced");
        auto const part = b.first(static_cast<std::size_t>(lengths[i]));
        h.frame.entries[i].bytes = std::make_shared<message>(part.begin(), part.end());
        b = b.subspan(part.size());
    }
    if (!b.empty()) wire_reader::fail("more bytes than announced");
    return std::move(h.frame);
}

/// A rank that has not called when a deadline passed.
struct missing_rank {
    int rank = 0;
    bool answered = false;  ///< It is there, but busy elsewhere.
    std::string phase{};    ///< With what; see `activity`. Empty: not known.
    std::uint64_t in = 0;    ///< Milliseconds since it entered that phase …
    std::uint64_t idle = 0;  ///< … and since it last got on with it.

    void is_at(const activity::snapshot& a) {
        phase = a.phase;
        in = static_cast<std::uint64_t>(a.in.count());
        idle = static_cast<std::uint64_t>(a.idle.count());
    }
};

inline message encode_missing(const std::vector<missing_rank>& all) {
    constexpr std::size_t most = 64;  // an error names no more
    wire_writer w;
    w.varint(std::min(most, all.size()));
    for (std::size_t i = 0; i < all.size() && i < most; ++i) {
        w.varint(static_cast<std::uint64_t>(all[i].rank));
        w.u8(all[i].answered);
        w.string(all[i].phase);
        w.varint(all[i].in);
        w.varint(all[i].idle);
    }
    return std::move(w.out);
}
inline std::vector<missing_rank> decode_missing(std::span<const std::byte> b) {
    wire_reader r(b);
    std::vector<missing_rank> all;
    for (auto n = r.count(5); n-- > 0;) {
        missing_rank m;
        m.rank = static_cast<int>(r.varint() & INT32_MAX);
        m.answered = r.u8() != 0;
        m.phase = r.string();
        m.in = r.varint();
        m.idle = r.varint();
        all.push_back(std::move(m));
    }
    return all;
}

}  // namespace cairn::detail

#endif
