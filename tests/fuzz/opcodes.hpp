// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_OPCODES_HPP
#define CAIRN_TEST_FUZZ_OPCODES_HPP

#include "engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Pickles as sequences of opcodes: what is changed is still a pickle, and means something else.
namespace fuzz {

/// Length of an opcode and its argument at the beginning of `b`; all that is left if that is cut.
inline std::size_t opcode_length(bytes b) {
    auto const op = static_cast<std::uint8_t>(b[0]);
    auto const little = [&](std::size_t n) {
        std::uint64_t v = 0;
        for (std::size_t i = 0; i < n && 1 + i < b.size(); ++i)
            v |= std::uint64_t{static_cast<std::uint8_t>(b[1 + i])} << (8 * i);
        return v;
    };
    auto const clipped = [&](std::uint64_t n) {
        return static_cast<std::size_t>(std::min<std::uint64_t>(n, b.size()));
    };
    switch (op) {
        case 0x80:
        case 'K':
        case 'h':
        case 'q': return clipped(2);
        case 'M': return clipped(3);
        case 'J':
        case 'j':
        case 'r': return clipped(5);
        case 'G':
        case 0x95: return clipped(9);
        case 0x8a:
        case 0x8c:
        case 'U':
        case 'C': return clipped(2 + little(1));
        case 0x8b:
        case 'X':
        case 'T':
        case 'B': return clipped(5 + little(4));
        case 'c': {  // two lines
            std::size_t at = 1;
            for (int lines = 0; at < b.size() && lines < 2; ++at) lines += b[at] == std::byte{'\n'};
            return at;
        }
        default: return 1;
    }
}

inline std::vector<input> opcodes_of(bytes b) {
    std::vector<input> all;
    while (!b.empty()) {
        auto const one = b.first(opcode_length(b));
        all.emplace_back(one.begin(), one.end());
        b = b.subspan(one.size());
    }
    return all;
}

/// Strings keep a length that fits their bytes.
inline void change_opcode(input& op, engine& e) {
    auto const text = [&](std::string_view s) {
        op.resize(1);
        for (char c : s) op.push_back(static_cast<std::byte>(c));
    };
    static constexpr std::string_view classes[] = {"os\nsystem\n",
                                                   "builtins\neval\n",
                                                   "collections\nOrderedDict\n",
                                                   "torch\nSize\n",
                                                   "torch._utils\n_rebuild_tensor_v2\n",
                                                   "torch._utils\n_rebuild_parameter\n",
                                                   "torch\nBFloat16Storage\n",
                                                   "torch\nfloat16\n",
                                                   "_codecs\nencode\n",
                                                   "\n\n"};
    std::size_t length = 0;  // of the count in front of an argument
    switch (static_cast<std::uint8_t>(op[0])) {
        case 'c': return text(classes[e.below(std::size(classes))]);
        case 0x8a:
        case 0x8c:
        case 'U':
        case 'C': length = 1; break;
        case 0x8b:
        case 'X':
        case 'T':
        case 'B': length = 4; break;
        case 'K':
        case 'M':
        case 'J':
        case 'G':
        case 'h':
        case 'j':
        case 'q':
        case 'r':
            for (std::size_t i = 1; i < op.size(); ++i)
                if (e.one_in(2)) op[i] = static_cast<std::byte>(e());
            return;
        default: op[0] = static_cast<std::byte>(e()); return;
    }
    if (op.size() < 1 + length) return;
    if (e.one_in(3))
        op.resize(1 + length + e.below(12), static_cast<std::byte>(e()));
    else if (op.size() > 1 + length)
        op[1 + length + e.below(op.size() - 1 - length)] = static_cast<std::byte>(e());
    for (std::size_t i = 0; i < length; ++i)
        op[1 + i] = static_cast<std::byte>((op.size() - 1 - length) >> (8 * i));
}

/// Changes, removes, repeats and moves opcodes.
inline input change_opcodes(bytes b, engine& e) {
    auto all = opcodes_of(b);
    for (auto n = 1 + e.below(4); n > 0 && !all.empty(); --n) {
        auto const at = e.any(all), to = e.any(all);
        switch (e.below(8)) {
            case 0: all.erase(at); break;
            case 1: std::swap(*at, *to); break;
            case 2: {
                auto again = *at;
                all.insert(to, std::move(again));
                break;
            }
            case 3: *to = input(*at); break;
            default: change_opcode(*at, e);
        }
    }
    input out;
    for (auto const& op : all) out.insert(out.end(), op.begin(), op.end());
    return out;
}

}  // namespace fuzz

#endif
