// SPDX-License-Identifier: Apache-2.0
// Values that are no tensors: the bytes that torch.save of PyTorch 2.13 wrote for them.
#include <cairn/format/torch/value_item.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(objects)

namespace {

using cairn::value;
namespace torch = cairn::format::torch;

std::string hex(const std::vector<std::byte>& b) {
    std::string s;
    for (auto x : b) {
        s += "0123456789abcdef"[static_cast<unsigned>(x) >> 4];
        s += "0123456789abcdef"[static_cast<unsigned>(x) & 15];
    }
    return s;
}

value bytes(std::string_view s) {
    value::bytes_t b;
    for (char c : s) b.push_back(static_cast<std::byte>(c));
    return b;
}

value power_of_two(std::size_t n) {
    std::vector<std::uint8_t> b(n / 8 + 2);
    b[n / 8] = static_cast<std::uint8_t>(1u << (n % 8));
    return cairn::big_int(b);
}

void is_pickled_as(const value& v, std::string_view wanted) {
    BOOST_TEST(hex(torch::value_pickler::pickle(v)) == wanted);
    BOOST_TEST((torch::decode_value(torch::encode_value(v)) == v));
}

struct long_container {
    std::int64_t n;
    std::size_t item_bytes;
    std::uint32_t item_crc;
};

template <class Make>
void are_items_of(std::initializer_list<long_container> cases, Make&& make) {
    for (auto const& c : cases) {
        BOOST_TEST_CONTEXT(c.n) {
            std::vector<value> items;
            for (std::int64_t i = 0; i < c.n; ++i) items.emplace_back(i);
            auto const v = make(std::move(items));
            auto const item = torch::encode_value(v);
            BOOST_TEST(item.size() == c.item_bytes);
            BOOST_TEST(cairn::format::crc32(item) == c.item_crc);
            BOOST_TEST((torch::decode_value(item) == v));
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(atoms_are_pickled_as_python_does) {
    is_pickled_as({}, "80024e2e");
    is_pickled_as(true, "8002882e");
    is_pickled_as(-1, "80024affffffff2e");
    is_pickled_as(65536, "80024a000001002e");
    is_pickled_as(std::int64_t{2147483648}, "80028a0500000080002e");
    is_pickled_as(power_of_two(80), "80028a0b00000000000000000000012e");
    is_pickled_as(1.5, "8002473ff80000000000002e");
    is_pickled_as("h\u00e9llo",
                  "80025806000000"
                  "68c3a96c6c6f71002e");
}

BOOST_AUTO_TEST_CASE(containers_are_pickled_as_python_does) {
    is_pickled_as(value::list({}), "80025d71002e");
    is_pickled_as(value::list({7}), "80025d71004b07612e");
    is_pickled_as(value::tuple({}), "8002292e");
    is_pickled_as(value::tuple({1, "a", value::tuple({2.5, nullptr})}),
                  "80024b0158010000006171004740040000000000004e8671018771022e");
    is_pickled_as(value::dict({{1, 2}}), "80027d71004b014b02732e");
}

BOOST_AUTO_TEST_CASE(bytes_are_latin1_text) {
    is_pickled_as(bytes(""), "8002635f5f6275696c74696e5f5f0a62797465730a7100295271012e");
    is_pickled_as(bytes(std::string_view("\0ab\xff", 4)),
                  "8002635f636f646563730a656e636f64650a71005805000000006162c3bf71015806000000"
                  "6c6174696e3171028671035271042e");
}

/// One object in CPython: short str and bytes, the names that pickling uses, keys of dicts.
BOOST_AUTO_TEST_CASE(what_cpython_has_once_is_written_once) {
    is_pickled_as(value::list({"a", "a", "two", "two", "", ""}),
                  "80025d71002858010000006171016801580300000074776f7102580300000074776f710358000000"
                  "0071046804652e");
    is_pickled_as(
        value::list({bytes("ab"), bytes("cd"), bytes(""), bytes(""), bytes("x"), bytes("x")}),
        "80025d710028635f636f646563730a656e636f64650a710158020000006162710258060000006c6174696e3171"
        "0386710452710568015802000000636471066803867107527108635f5f6275696c74696e5f5f0a62797465730a"
        "71092952710a680a6801580100000078710b680386710c52710d680d652e");
    is_pickled_as(
        value::list({value::dict({{"lr", 0.1}, {"n", 1}}), value::dict({{"lr", 0.2}, {"n", 2}})}),
        "80025d7100287d71012858020000006c727102473fb999999999999a58010000006e71034b01757d"
        "7104286802473fc999999999999a68034b0275652e");
}

/// Batches of 1000; a dict of a multiple of 1000 ends with an empty one.
BOOST_AUTO_TEST_CASE(long_containers_go_in_batches) {
    are_items_of({{999, 4013, 0xec2511d5},
                  {1000, 4013, 0x4d6fd693},
                  {1001, 4013, 0x0b4fe745},
                  {2000, 7021, 0xe355c38d},
                  {2001, 7021, 0xc57c1a4b}},
                 [](std::vector<value> items) { return value::list(std::move(items)); });
    are_items_of({{999, 4013, 0xdecfca66},
                  {1000, 4013, 0xa4bdde21},
                  {1001, 4013, 0x5bba3bc1},
                  {2000, 6957, 0x6a8236c4},
                  {2001, 7021, 0x763b303a}},
                 [](std::vector<value> items) { return value::tuple(std::move(items)); });
    are_items_of({{999, 15341, 0xd137a1e8},
                  {1000, 15341, 0xcc76096a},
                  {1001, 15405, 0x87379e83},
                  {2000, 31341, 0x580a707f},
                  {2001, 31405, 0x3e175d5d}},
                 [](std::vector<value> items) {
                     for (auto& i : items) i = "s " + std::to_string(i.as<std::int64_t>());
                     return value::list(std::move(items));
                 });
    are_items_of({{999, 18093, 0x8b6eb065},
                  {1000, 18093, 0xf676829d},
                  {1001, 18157, 0x34b3c09d},
                  {2000, 37101, 0x4cca868b},
                  {2001, 37165, 0x90c74ea7}},
                 [](std::vector<value> items) {
                     value::dict_t d;
                     for (auto& i : items)
                         d.items.emplace_back("k " + std::to_string(i.as<std::int64_t>()), i);
                     return value(std::move(d));
                 });
}

BOOST_AUTO_TEST_SUITE_END()
