// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_COMPRESSED_HPP
#define CAIRN_TEST_FUZZ_COMPRESSED_HPP

#include "items.hpp"

#include <cairn/format/zstd.hpp>
#include <cairn/metadata/detail/transforms.hpp>

#include <algorithm>
#include <cstddef>

/// Items that are one zstd frame each.
namespace fuzz {

/// As of a chunk of 16 KiB, in pieces.
inline input decompressed(bytes b) {
    constexpr std::size_t piece = 1000;
    cairn::format::zstd::decoder d(cairn::detail::most_item_bytes(16 << 10));
    input out, some(777);
    for (auto left = b; !left.empty();) {
        auto now = left.first(std::min(piece, left.size()));
        left = left.subspan(now.size());
        for (auto n = some.size(); !now.empty() || (n == some.size() && !d.has_ended());) {
            n = d.decode(now, some);
            out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
        }
    }
    d.check_end();
    return out;
}
inline input compressed(bytes b, int level) {
    cairn::format::zstd::encoder e(level);
    input out;
    auto const sink = [&](bytes encoded) { out.insert(out.end(), encoded.begin(), encoded.end()); };
    e.begin(b.size());
    e.append(b, sink);
    e.finish(sink);
    return out;
}
inline void compressed_item(bytes b) {
    auto const content = decompressed(b);
    if (decompressed(compressed(content, 1)) != content)
        throw support::finding("an item changes when it is compressed again");
    item(content);
}
/// An item that says something else, or a frame cut in two.
inline input change_compressed_item(bytes b, engine& e) {
    auto out = compressed(change_item(decompressed(b), e), static_cast<int>(e.below(4)) - 1);
    if (e.one_in(8)) out.insert(out.end(), b.begin(), b.end());
    return out;
}

}  // namespace fuzz

#endif
