// SPDX-License-Identifier: Apache-2.0
// objects make SEED COUNT OUT | recode IN OUT: items of values that are no tensors.
//
// `make` writes the items of values that objects.py makes by the same rule; `recode` reads
// items and writes each as it would be written anew. A file is a sequence of records: the length
// as 8 bytes, little-endian, and the item.
#include <cairn/format/torch/value_item.hpp>

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using cairn::value;
using bytes = std::vector<std::byte>;

/// Knuth's linear congruential generator: the same numbers in both languages.
struct draws {
    std::uint64_t x;
    std::uint64_t operator()(std::uint64_t n) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        return (x >> 33) % n;
    }
};

value make(draws& draw, int depth);

value number(draws& draw) {
    constexpr std::int64_t edges[] = {0,
                                      1,
                                      2,
                                      127,
                                      128,
                                      255,
                                      256,
                                      32767,
                                      65535,
                                      65536,
                                      2147483647,
                                      2147483648,
                                      std::int64_t{1} << 40,
                                      INT64_MAX};
    auto const i = edges[draw(std::size(edges))];
    auto const form = draw(3);
    return form == 0 ? i : form == 1 ? -i : -i - 1;
}

value real(draws& draw) {
    constexpr double special[] = {0.0,   -0.0,   0.1,
                                  1e300, 5e-324, std::numeric_limits<double>::infinity()};
    if (draw(2) == 0) return special[draw(std::size(special))];
    return (static_cast<double>(draw(2001)) - 1000.0) / 8.0;
}

std::string text(draws& draw, std::uint64_t n) {
    constexpr std::string_view letters[] = {"a", "Z", "_", "\n", "é", "ÿ", "Ā", "✓", "😀", " "};
    std::string s;
    while (n-- > 0) s += letters[draw(std::size(letters))];
    return s;
}

template <class F>
std::vector<value> many(std::uint64_t n, F&& item) {
    std::vector<value> v;
    for (std::uint64_t i = 0; i < n; ++i) v.push_back(item(i));
    return v;
}

value dict(draws& draw, int depth) {
    value::dict_t d;
    auto const n = draw(5);
    for (std::uint64_t i = 0; i < n; ++i) {
        auto const name = draw(4);
        auto const key = draw(6) == 0 ? value(static_cast<std::int64_t>(i))
                                      : value("key " + std::to_string(name * 8 + i));
        d.items.emplace_back(key, make(draw, depth + 1));
    }
    return d;
}

/// A container whose length is at an edge of CPython's batches.
value long_one(draws& draw) {
    constexpr std::uint64_t lengths[] = {0, 1, 2, 3, 4, 999, 1000, 1001, 2000, 2001};
    auto const n = lengths[draw(std::size(lengths))];
    auto const item = [](std::uint64_t i) { return value(static_cast<std::int64_t>(i)); };
    switch (draw(4)) {
        case 0: return value::list(many(n, item));
        case 1: return value::tuple(many(n, item));
        case 2:
            return value::list(
                many(n, [](std::uint64_t i) { return value("name " + std::to_string(i)); }));
        default: break;
    }
    value::dict_t d;
    for (std::uint64_t i = 0; i < n; ++i)
        d.items.emplace_back("key " + std::to_string(i), static_cast<std::int64_t>(i));
    return d;
}

value make(draws& draw, int depth) {
    switch (draw(depth < 4 ? 14 : 9)) {
        case 0: return {};
        case 1: return draw(2) != 0;
        case 2: return number(draw);
        case 3: {
            std::vector<std::uint8_t> b;
            for (auto n = 1 + draw(300); n-- > 0;)
                b.push_back(static_cast<std::uint8_t>(draw(256)));
            return cairn::big_int(b);
        }
        case 4: return real(draw);
        case 5: return text(draw, draw(4));
        case 6: return text(draw, draw(300));
        case 7: {
            value::bytes_t b;
            for (auto n = draw(4); n-- > 0;) b.push_back(static_cast<std::byte>(draw(256)));
            return b;
        }
        case 8: {
            value::bytes_t b;
            for (auto n = draw(300); n-- > 0;) b.push_back(static_cast<std::byte>(draw(256)));
            return b;
        }
        case 9: return long_one(draw);
        case 10:
        case 11: {
            auto const n = draw(5);
            return value::list(many(n, [&](std::uint64_t) { return make(draw, depth + 1); }));
        }
        case 12: {
            auto const n = draw(6);
            return value::tuple(many(n, [&](std::uint64_t) { return make(draw, depth + 1); }));
        }
        default: return dict(draw, depth);
    }
}

void put(std::ofstream& out, const bytes& item) {
    for (int i = 0; i < 8; ++i) out.put(static_cast<char>(std::uint64_t{item.size()} >> (8 * i)));
    out.write(reinterpret_cast<const char*>(item.data()),
              static_cast<std::streamsize>(item.size()));
}

int run(const std::vector<std::string>& args) {
    if (args.size() == 4 && args[0] == "make") {
        std::ofstream out(args[3], std::ios::binary);
        for (std::uint64_t i = 0; i < std::stoull(args[2]); ++i) {
            draws draw{std::stoull(args[1]) * 1000003 + i};
            put(out, cairn::format::torch::encode_value(make(draw, 0)));
        }
        return out.flush() ? 0 : 2;
    }
    if (args.size() == 3 && args[0] == "recode") {
        std::ifstream in(args[1], std::ios::binary);
        std::ofstream out(args[2], std::ios::binary);
        std::string const all{std::istreambuf_iterator<char>(in), {}};
        for (std::size_t at = 0; at + 8 <= all.size();) {
            std::uint64_t n = 0;
            for (std::size_t i = 0; i < 8; ++i)
                n |= std::uint64_t{static_cast<unsigned char>(all[at + i])} << (8 * i);
            auto const item =
                std::as_bytes(std::span(all).subspan(at + 8, static_cast<std::size_t>(n)));
            put(out, cairn::format::torch::encode_value(cairn::format::torch::decode_value(item)));
            at += 8 + static_cast<std::size_t>(n);
        }
        return out.flush() ? 0 : 2;
    }
    std::cerr << "usage: objects make SEED COUNT OUT, or objects recode IN OUT\n";
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& e) {
        std::cerr << "objects: " << e.what() << "\n";
        return 2;
    }
}
