// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_LATIN1_HPP
#define CAIRN_FORMAT_PICKLE_LATIN1_HPP

#include <cairn/detail/cxx20.hpp>

#include <string>
#include <string_view>

namespace cairn::format::pickle {

/// Returns the text, in UTF-8, whose code points are these bytes: protocol 2 writes bytes as
/// `_codecs.encode(text, 'latin1')`.
inline std::string latin1_text(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size());
    for (auto const c : bytes) {
        auto const u = static_cast<unsigned char>(c);
        if (u >= 0x80) text.push_back(static_cast<char>(0xc0 | u >> 6));
        text.push_back(static_cast<char>(u < 0x80 ? u : 0x80 | (u & 0x3f)));
    }
    return text;
}

}  // namespace cairn::format::pickle

#endif
