// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_PACK_HPP
#define CAIRN_TEST_FUZZ_PACK_HPP

#include "support/crafted.hpp"

#include <cairn/detail/wire.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace fuzz {

/// A whole checkpoint as one run of bytes: count · name · content · ….
inline std::vector<std::byte> pack(const support::crafted& c) {
    cairn::detail::wire_writer w;
    w.varint(c.files.size());
    for (auto const& [name, b] : c.files) {
        w.string(name);
        w.bytes(b);
    }
    return w.take();
}
/// Bytes that say less than they announce are as many files as there are.
inline support::crafted unpack(cairn::detail::wire_reader& r) {
    support::crafted c;
    for (auto n = r.count(2); n-- > 0;) {
        auto name = r.string();
        auto const content = r.bytes();
        c.files[std::move(name)].assign(content.begin(), content.end());
    }
    return c;
}
inline support::crafted unpack(std::span<const std::byte> b) {
    cairn::detail::wire_reader r(b);
    return unpack(r);
}

}  // namespace fuzz

#endif
