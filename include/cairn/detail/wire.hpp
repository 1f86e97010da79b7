// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_WIRE_HPP
#define CAIRN_DETAIL_WIRE_HPP

#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Writes cairn's own compact binary encoding: little-endian fixed integers, LEB128 varints (signed
/// ones zigzag), length-prefixed strings.
class wire_writer {
public:
    wire_writer() = default;
    /// Constructs a writer that appends to these bytes.
    explicit wire_writer(std::vector<std::byte> before)
        : buffer_(std::move(before)), used_(buffer_.size()) {}
    wire_writer(wire_writer&& other) noexcept
        : buffer_(std::exchange(other.buffer_, {})), used_(std::exchange(other.used_, 0)) {}

    void u8(std::uint8_t v) { *grow(1) = std::byte{v}; }
    void u32(std::uint32_t v) { put(grow(sizeof v), v); }
    void u64(std::uint64_t v) { put(grow(sizeof v), v); }
    void u32s(std::span<const std::uint32_t> all) {
        auto* to = grow(all.size() * sizeof(std::uint32_t));
        for (auto const v : all) to = put(to, v);
    }
    /// Writes the lowest `n` bytes of a number, at most eight.
    void low_bytes(std::uint64_t v, std::size_t n) {
        auto* const to = grow(n);
        for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(v >> (8 * i));
    }
    void varint(std::uint64_t v) {
        std::size_t n = 1;
        for (auto rest = v >> 7; rest != 0; rest >>= 7) ++n;
        auto* to = grow(n);
        for (; --n > 0; v >>= 7) *to++ = static_cast<std::byte>(v | 0x80);
        *to = static_cast<std::byte>(v);
    }
    void svarint(std::int64_t v) {
        varint((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63));
    }
    void raw(std::span<const std::byte> b) {
        auto* const to = grow(b.size());
        if (!b.empty()) std::memcpy(to, b.data(), b.size());
    }
    void bytes(std::span<const std::byte> b) {
        varint(b.size());
        raw(b);
    }
    void string(std::string_view s) { bytes(std::as_bytes(std::span(s.data(), s.size()))); }
    void fill(std::size_t n, std::byte each) { std::fill_n(grow(n), n, each); }
    /// Overwrites eight bytes that were written as a number.
    void set_u64(std::size_t at, std::uint64_t v) { put(buffer_.data() + at, v); }

    std::size_t size() const noexcept { return used_; }
    std::span<const std::byte> written() const noexcept { return {buffer_.data(), used_}; }
    /// Returns what was written, and leaves the writer empty.
    std::vector<std::byte> take() {
        buffer_.resize(std::exchange(used_, 0));
        return std::exchange(buffer_, {});
    }
    void clear() noexcept { used_ = 0; }
    /// Reserves memory for a total of `all` bytes.
    void reserve(std::size_t all) {
        if (buffer_.size() < all) buffer_.resize(all);
    }

private:
    /// Returns room for `n` bytes more.
    std::byte* grow(std::size_t n) {
        if (buffer_.size() - used_ < n) enlarge(n);
        return buffer_.data() + std::exchange(used_, used_ + n);
    }
    [[gnu::noinline]] void enlarge(std::size_t n) {
        auto const all = used_ + n;
        buffer_.resize(all <= buffer_.capacity() ? buffer_.capacity()
                                                 : std::max({std::size_t{64}, 2 * used_, all}));
    }
    /// @return The end of what was written.
    template <class T>
    static std::byte* put(std::byte* to, T v) {
        for (std::size_t i = 0; i < sizeof v; ++i) to[i] = static_cast<std::byte>(v >> (8 * i));
        return to + sizeof v;
    }

    std::vector<std::byte> buffer_{};  ///< Larger than what is written.
    std::size_t used_ = 0;
};

/// Reads what @ref wire_writer wrote. Every read is bounds-checked and throws @ref error with
/// @ref errc::corrupt; counts are checked against the bytes that are left, so that no input can
/// make a caller allocate more than a small multiple of its own size.
class wire_reader {
public:
    explicit wire_reader(std::span<const std::byte> in) : in_(in) {}

    std::size_t left() const noexcept { return in_.size() - at_; }
    std::size_t position() const noexcept { return at_; }
    std::uint8_t u8() {
        need(1);
        return static_cast<std::uint8_t>(in_[at_++]);
    }
    std::uint32_t u32() { return at<std::uint32_t>(raw(sizeof(std::uint32_t)).data()); }
    std::uint64_t u64() { return at<std::uint64_t>(raw(sizeof(std::uint64_t)).data()); }
    /// Fills `into`.
    void u32s(std::span<std::uint32_t> into) {
        auto const* from = raw(into.size_bytes()).data();
        for (auto& v : into) {
            v = at<std::uint32_t>(from);
            from += sizeof v;
        }
    }
    std::uint64_t varint() {
        if (at_ < in_.size() && (in_[at_] & std::byte{0x80}) == std::byte{0})
            return static_cast<std::uint64_t>(in_[at_++]);
        return long_varint();
    }
    std::int64_t svarint() {
        auto const v = varint();
        return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
    }
    /// Reads a count of things that take at least `each` bytes apiece.
    std::size_t count(std::size_t each = 1) {
        auto const n = varint();
        if (n > left() / each) fail("a count that exceeds the data");
        return static_cast<std::size_t>(n);
    }
    std::span<const std::byte> raw(std::size_t n) {
        need(n);
        auto const r = in_.subspan(at_, n);
        at_ += n;
        return r;
    }
    std::span<const std::byte> bytes() { return raw(count()); }
    std::string string() {
        auto const b = bytes();
        return {reinterpret_cast<const char*>(b.data()), b.size()};
    }
    /// @pre There are eight bytes.
    static std::uint64_t u64_at(const std::byte* from) noexcept { return at<std::uint64_t>(from); }
    [[noreturn]] static void fail(const char* found) {
        throw error(errc::corrupt, {.found = found});
    }

private:
    void need(std::size_t n) const {
        if (n > left()) fail("fewer bytes than announced");
    }
    std::uint64_t long_varint() {
        auto const end = std::min<std::size_t>(left(), 10);
        auto const* from = in_.data() + at_;
        std::uint64_t v = 0;
        for (std::size_t n = 0; n < end; ++n) {
            auto const b = static_cast<std::uint8_t>(from[n]);
            if (n == 9 && b > 1) break;
            v |= static_cast<std::uint64_t>(b & 0x7f) << (7 * n);
            if ((b & 0x80) != 0) continue;
            at_ += n + 1;
            return v;
        }
        fail(end < 10 ? "fewer bytes than announced" : "a varint of more than 64 bits");
    }
    template <class T>
    static T at(const std::byte* from) noexcept {
        T v = 0;
        for (std::size_t i = 0; i < sizeof v; ++i)
            v |= static_cast<T>(static_cast<std::uint8_t>(from[i])) << (8 * i);
        return v;
    }

    std::span<const std::byte> in_;
    std::size_t at_ = 0;
};

}  // namespace cairn::detail

#endif
