// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_BIG_INT_IPP
#define CAIRN_METADATA_IMPL_BIG_INT_IPP

#include <cairn/metadata/big_int.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn {

CAIRN_DECL big_int::big_int(std::int64_t v) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
    trim();
}

CAIRN_DECL big_int::big_int(std::uint64_t v) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
    bytes_.push_back(0);
    trim();
}

CAIRN_DECL big_int::big_int(std::vector<std::uint8_t> twos_complement)
    : bytes_(std::move(twos_complement)) {
    trim();
}

CAIRN_DECL std::optional<std::int64_t> big_int::as_int64() const noexcept {
    if (bytes_.size() > 8) return std::nullopt;
    std::uint64_t v = negative() ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
        v &= ~(std::uint64_t{0xff} << (8 * i));
        v |= std::uint64_t{bytes_[i]} << (8 * i);
    }
    return static_cast<std::int64_t>(v);
}

CAIRN_DECL std::string big_int::to_string() const {
    std::vector<std::uint8_t> magnitude = bytes_;
    if (negative()) {
        unsigned carry = 1;
        for (auto& b : magnitude) {
            carry += static_cast<std::uint8_t>(~b);
            b = static_cast<std::uint8_t>(carry);
            carry >>= 8;
        }
        if (carry != 0) magnitude.push_back(1);
    }
    while (!magnitude.empty() && magnitude.back() == 0) magnitude.pop_back();
    constexpr std::size_t most_decimal_bytes = 1785;  // 256^1785 has 4299 digits
    auto digits =
        magnitude.size() > most_decimal_bytes ? hexadecimal(magnitude) : decimal(magnitude);
    return negative() ? "-" + digits : digits;
}

CAIRN_DECL void big_int::trim() {
    while (!bytes_.empty()) {
        bool const sign = bytes_.size() > 1 && (bytes_[bytes_.size() - 2] & 0x80) != 0;
        bool const last_is_sign =
            (bytes_.back() == 0x00 && !sign) || (bytes_.back() == 0xff && sign);
        if (!last_is_sign) break;
        bytes_.pop_back();
    }
}

CAIRN_DECL std::string big_int::hexadecimal(const std::vector<std::uint8_t>& magnitude) {
    std::string s = "0x";
    s.reserve(2 + 2 * magnitude.size());
    for (std::size_t i = magnitude.size(); i-- > 0;)
        for (int const half : {magnitude[i] >> 4, magnitude[i] & 15})
            if (half != 0 || s.size() > 2) s.push_back("0123456789abcdef"[half]);
    return s;
}

CAIRN_DECL std::string big_int::decimal(const std::vector<std::uint8_t>& magnitude) {
    std::vector<std::uint32_t> words((magnitude.size() + 3) / 4);
    for (std::size_t i = 0; i < magnitude.size(); ++i)
        words[i / 4] |= std::uint32_t{magnitude[i]} << (8 * (i % 4));
    std::string digits;  // least significant first
    while (!words.empty()) {
        std::uint64_t remainder = 0;
        for (std::size_t i = words.size(); i-- > 0;) {
            auto const v = remainder << 32 | words[i];
            words[i] = static_cast<std::uint32_t>(v / 1'000'000'000);
            remainder = v % 1'000'000'000;
        }
        while (!words.empty() && words.back() == 0) words.pop_back();
        for (int k = 0; k < 9; ++k) {
            digits.push_back(static_cast<char>('0' + remainder % 10));
            remainder /= 10;
        }
    }
    while (!digits.empty() && digits.back() == '0') digits.pop_back();
    if (digits.empty()) digits = "0";
    std::reverse(digits.begin(), digits.end());
    return digits;
}

}  // namespace cairn

#endif
