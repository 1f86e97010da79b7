// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_MESSAGE_HPP
#define CAIRN_TEST_FUZZ_MESSAGE_HPP

#include "vary.hpp"

#include "support/promises.hpp"

#include <map>
#include <string>
#include <utility>

namespace fuzz {

/// What is written must be read back as it is. Not for encoders that shorten.
enum class fidelity { exact, readable, none };

/// Decodes bytes; what was accepted is encoded and decoded again.
template <fidelity How, auto Decode, auto Encode>
void reread(bytes b) {
    auto const x = Decode(b);
    if constexpr (How != fidelity::none) {
        input const written = Encode(x);
        try {
            auto const y = Decode(written);
            if constexpr (How == fidelity::exact)
                if (!(y == x)) throw support::finding("written again, it says something else");
        } catch (const cairn::error& e) {
            throw support::finding(std::string("what was read cannot be read again: ") + e.what());
        }
    }
}

/// What a seed says. Few are kept: decoding costs as much as what is tested.
template <auto Decode>
auto decoded(bytes b) {
    static std::map<std::string, decltype(Decode(b))> kept;
    std::string key(reinterpret_cast<const char*>(b.data()), b.size());
    if (auto const known = kept.find(key); known != kept.end()) return known->second;
    auto x = Decode(b);
    if (kept.size() < 16) kept.emplace(std::move(key), x);
    return x;
}

/// Decodes bytes, changes what they say, and encodes that. What is then read must be that.
template <fidelity How, auto Decode, auto Encode>
input varied(bytes b, engine& e) {
    auto x = decoded<Decode>(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) vary(x);
    input out = Encode(x);
    if constexpr (How == fidelity::exact) {
        try {
            if (!(Decode(out) == x)) throw support::finding("what is read is not what was written");
        } catch (const cairn::error&) {  // no reader accepts it, which is fine
        }
    }
    return out;
}

/// A CRC-32 of all before, at the end of an input.
inline void put32(input& b, std::size_t at, std::uint32_t v) {
    for (unsigned i = 0; i < 4; ++i) b[at + i] = static_cast<std::byte>(v >> (8 * i));
}
inline void seal_end(input& b) {
    if (b.size() >= 4)
        put32(b, b.size() - 4, cairn::format::crc32(std::span(b).first(b.size() - 4)));
}
/// The same before a length and a magic of 8 bytes each; the length is made right too.
inline void seal_section(input& b) {
    if (b.size() < 20) return;
    auto const n = b.size();
    put32(b, n - 20, cairn::format::crc32(std::span(b).first(n - 20)));
    for (std::size_t i = 0; i < 8; ++i)
        b[n - 16 + i] = static_cast<std::byte>(std::uint64_t{n} >> (8 * i));
}

}  // namespace fuzz

#endif
