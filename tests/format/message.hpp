// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FORMAT_MESSAGE_HPP
#define CAIRN_TEST_FORMAT_MESSAGE_HPP

#include <cairn/detail/wire.hpp>

#include <cstddef>
#include <functional>
#include <vector>

/// Metadata as ranks send it, of one file "f", whose content somebody else has encoded.
inline std::vector<std::byte> message_of(
    const std::function<void(cairn::detail::wire_writer&)>& content) {
    cairn::detail::wire_writer w;
    w.u8(4);
    w.u8(0);
    w.varint(0);
    w.u64(0);
    content(w);
    w.set_u64(3, w.size() - 11);
    w.string("");
    w.varint(1);
    w.string("f");
    w.u8(0);
    return w.take();
}

#endif
