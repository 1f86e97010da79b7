// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_BIG_INT_HPP
#define CAIRN_METADATA_BIG_INT_HPP

#include <cairn/detail/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// An integer of any size, like Python's. Only stored and printed: no arithmetic.
///
/// Stored as little-endian two's complement with no superfluous bytes, which is also how a pickle
/// writes it (LONG1); zero has no bytes.
class big_int {
public:
    big_int() = default;
    explicit big_int(std::int64_t v);
    explicit big_int(std::uint64_t v);
    explicit big_int(std::vector<std::uint8_t> twos_complement);

    const std::vector<std::uint8_t>& bytes() const noexcept { return bytes_; }
    bool negative() const noexcept { return !bytes_.empty() && (bytes_.back() & 0x80) != 0; }

    /// Returns the number as `int64_t`, if it fits.
    std::optional<std::int64_t> as_int64() const noexcept;

    /// Returns up to 4300 digits in decimal, Python's default limit too: decimal conversion is
    /// quadratic in the length. Hexadecimal (`0x…`) beyond.
    std::string to_string() const;

    friend bool operator==(const big_int&, const big_int&) = default;

private:
    static std::string hexadecimal(const std::vector<std::uint8_t>& magnitude);
    static std::string decimal(const std::vector<std::uint8_t>& magnitude);

    void trim();

    std::vector<std::uint8_t> bytes_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/big_int.ipp>
#endif

#endif
