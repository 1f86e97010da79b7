// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_WRITER_HPP
#define CAIRN_FORMAT_PICKLE_WRITER_HPP

#include <cairn/detail/wire.hpp>

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::pickle {

/// Writes the opcodes of protocol 2, in the forms that CPython's pickler chooses.
class writer {
public:
    writer() {
        op(0x80);
        op(2);
    }
    void op(std::uint8_t o) { out_.u8(o); }
    void none() { op('N'); }
    void boolean(bool b) { op(b ? 0x88 : 0x89); }
    void integer(std::int64_t v) {
        if (v >= 0 && v < 256) {
            op('K');
            out_.u8(static_cast<std::uint8_t>(v));
        } else if (v >= 0 && v < 65536) {
            op('M');
            out_.u8(static_cast<std::uint8_t>(v));
            out_.u8(static_cast<std::uint8_t>(v >> 8));
        } else if (v >= INT32_MIN && v <= INT32_MAX) {
            op('J');
            out_.u32(static_cast<std::uint32_t>(v));
        } else {
            std::vector<std::uint8_t> b;
            for (int i = 0; i < 8; ++i) b.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
            while (b.size() > 1 && ((b.back() == 0 && (b[b.size() - 2] & 0x80) == 0) ||
                                    (b.back() == 0xff && (b[b.size() - 2] & 0x80) != 0)))
                b.pop_back();
            big(b);
        }
    }
    /// Writes little-endian two's complement.
    void big(std::span<const std::uint8_t> b) {
        if (b.size() < 256) {
            op(0x8a);
            out_.u8(static_cast<std::uint8_t>(b.size()));
        } else {
            op(0x8b);
            out_.u32(static_cast<std::uint32_t>(b.size()));
        }
        out_.raw(std::as_bytes(b));
    }
    void real(double d) {
        op('G');
        auto const bits = std::bit_cast<std::uint64_t>(d);
        for (int i = 7; i >= 0; --i) out_.u8(static_cast<std::uint8_t>(bits >> (8 * i)));
    }
    void string(std::string_view s) {
        op('X');
        out_.u32(static_cast<std::uint32_t>(s.size()));
        raw(s);
    }
    /// Writes bytes as protocol 3 does, which every unpickler of Python 3 reads.
    void bytes(std::string_view s) {
        op('B');
        out_.u32(static_cast<std::uint32_t>(s.size()));
        raw(s);
    }
    void global(std::string_view module, std::string_view name) {
        op('c');
        raw(module);
        op('\n');
        raw(name);
        op('\n');
    }
    void mark() { op('('); }
    /// Memoizes the top of the stack. @return its number
    std::uint32_t put() {
        if (next_ < 256) {
            op('q');
            out_.u8(static_cast<std::uint8_t>(next_));
        } else {
            op('r');
            out_.u32(next_);
        }
        return next_++;
    }
    void get(std::uint32_t id) {
        if (id < 256) {
            op('h');
            out_.u8(static_cast<std::uint8_t>(id));
        } else {
            op('j');
            out_.u32(id);
        }
    }
    /// Begins a tuple; `end_tuple` with the same count ends it. An empty one is complete at once.
    void begin_tuple(std::size_t n) {
        if (n > 3) mark();
    }
    /// @return whether there is something to `put`: the empty tuple is a constant
    bool end_tuple(std::size_t n) {
        op(n == 0 ? ')' : n == 1 ? 0x85 : n == 2 ? 0x86 : n == 3 ? 0x87 : 't');
        return n != 0;
    }
    std::vector<std::byte> finish() {
        op('.');
        return out_.take();
    }
    std::size_t size() const noexcept { return out_.size(); }
    void reserve(std::size_t all) { out_.reserve(all); }

private:
    void raw(std::string_view s) { out_.raw(std::as_bytes(std::span(s.data(), s.size()))); }
    detail::wire_writer out_;
    std::uint32_t next_ = 0;
};

}  // namespace cairn::format::pickle

#endif
