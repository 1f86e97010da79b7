// SPDX-License-Identifier: Apache-2.0
// Items against PyTorch 2.14's own bytes; hostile pickles.
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/format/torch/tensor_items.hpp>
#include <cairn/metadata/check.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(items)

namespace {

namespace format = cairn::format;
namespace fs = std::filesystem;
using bytes = std::vector<std::byte>;

bytes slurp(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const b = std::as_bytes(std::span(s));
    return {b.begin(), b.end()};
}

bytes encoded_again(std::span<const std::byte> item, bool tensor) {
    if (!tensor) return format::torch::encode_value(format::torch::decode_value(item));
    auto const p = format::torch::parse_tensor_item(
        [&](std::uint64_t at, std::span<std::byte> into) {
            std::memcpy(into.data(), item.data() + at, into.size());
        },
        item.size());
    auto const payload = item.subspan(p.payload_offset, p.payload_length);
    BOOST_TEST(format::crc32(payload) == p.payload_crc);
    format::torch::tensor_item const t(
        {p.type, p.shape, p.strides, p.payload_length / cairn::size_of(p.type), 64});
    bytes out(t.prefix().begin(), t.prefix().end());
    out.insert(out.end(), payload.begin(), payload.end());
    auto const suffix = t.suffix(p.payload_crc);
    out.insert(out.end(), suffix.begin(), suffix.end());
    BOOST_TEST(t.length() == out.size());
    BOOST_TEST(t.item_crc(p.payload_crc) == format::crc32(out));
    return out;
}

bytes from_text(std::string_view s) {
    auto const b = std::as_bytes(std::span(s.data(), s.size()));
    return {b.begin(), b.end()};
}

/// Reads hostile bytes as a value: an error, never a crash.
void refuse(const bytes& b) {
    auto const read = [&] {
        auto const t = format::pickle::reader::read(b);
        (void)format::pickle::to_value(t)(t.root);
    };
    BOOST_CHECK_THROW(read(), cairn::error);
    BOOST_CHECK_THROW((void)format::torch::parse_metadata_pickle(b), cairn::error);
}

}  // namespace

BOOST_AUTO_TEST_CASE(items_are_byte_identical_to_those_of_pytorch_2_14) {
    std::size_t items = 0, same = 0;
    for (auto const& e : fs::directory_iterator(fs::path(CAIRN_GOLDEN) / "torch-2.14.1")) {
        auto const dir = e.path() / "checkpoint";
        auto const m = format::native::parse_metadata_file(slurp(dir / ".metadata")).meta;
        auto const one = [&](const cairn::storage_location& at, bool tensor) {
            auto const file = slurp(dir / at.file);
            std::span<const std::byte> const item(file.data() + at.offset, at.length);
            auto const again = encoded_again(item, tensor);
            ++items;
            same += std::equal(item.begin(), item.end(), again.begin(), again.end());
        };
        for (auto const& [fqn, entry] : m.entries) {
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
                for (auto const& c : t->chunks) one(c.at, true);
            else
                one(std::get<cairn::value_metadata>(entry).at, false);
        }
    }
    std::cout << "items: " << same << " of " << items << " byte-identical to PyTorch 2.14's\n";
    BOOST_TEST(items > 250u);
    BOOST_TEST(same == items);
}

BOOST_AUTO_TEST_CASE(metadata_survives_the_pickle_and_the_index) {
    for (auto const* version : {"torch-2.14.1", "torch-2.6.0"}) {
        for (auto const& e : fs::directory_iterator(fs::path(CAIRN_GOLDEN) / version)) {
            auto m =
                format::native::parse_metadata_file(slurp(e.path() / "checkpoint/.metadata")).meta;
            auto const file = format::native::make_metadata_file(m);
            auto const again = format::native::parse_metadata_file(file);
            BOOST_TEST(again.has_index);
            BOOST_TEST((again.meta == m));
            BOOST_CHECK_NO_THROW(format::native::check_pickle_agrees(file));
            BOOST_CHECK_NO_THROW(cairn::check_metadata(m));
        }
    }
}

BOOST_AUTO_TEST_CASE(every_value_comes_back) {
    using cairn::value;
    value const v = value::dict(
        {{"list", value::list({1, -1, 255, 256, 65536, std::int64_t{1} << 40, 1.5, true, nullptr})},
         {"empty", value::list({})},
         {"tuple", value::tuple({value::tuple({}), value::tuple({1, 2, 3, 4})})},
         {"raw", value::bytes_t{std::byte{0}, std::byte{0x7f}, std::byte{0x80}, std::byte{0xff}}},
         {"none", value::bytes_t{}},
         {"huge", cairn::big_int(std::vector<std::uint8_t>(300, 0x5a))},
         {7, "int key"}});
    BOOST_TEST((format::torch::decode_value(format::torch::encode_value(v)) == v));
}

BOOST_AUTO_TEST_CASE(hostile_pickles_are_refused) {
    refuse(
        from_text("\x80\x02"
                  "cos\nsystem\n(X\x02\x00\x00\x00lstR."));  // a class to call
    refuse(
        from_text("\x80\x04\x8c\x08"
                  "builtins\x8c\x04"
                  "eval\x93."));  // as STACK_GLOBAL
    refuse(
        from_text(std::string_view("\x80\x02X\xff\xff\xff\x7f"
                                   "abc.",
                                   11)));  // a huge str
    refuse(
        from_text(std::string_view("\x80\x02\x8b\xff\xff\xff\x7f"
                                   "abc.",
                                   11)));                                  // a huge int
    refuse(from_text(std::string_view("\x80\x02r\xff\xff\xff\x7f.", 8)));  // a huge memo key
    refuse(from_text("\x80\x02)h\x05."));                                  // no such memo
    refuse(from_text("\x80\x02"));
    refuse(
        from_text("\x80\x02]q\x00h\x00"
                  "a."));  // contains itself
    std::string deep = "\x80\x02";
    for (int i = 0; i < 100000; ++i) deep += ')';
    for (int i = 0; i < 99999; ++i) deep += "\x85";
    refuse(from_text(deep + "."));
    // Each list holds the one before ten times: ten to the power of 30 leaves in 700 bytes.
    std::string bomb = "\x80\x02]";
    for (int i = 0; i < 30; ++i) {
        bomb += "q";
        bomb += static_cast<char>(i);
        bomb += "](";
        for (int k = 0; k < 10; ++k) {
            bomb += "h";
            bomb += static_cast<char>(i);
        }
        bomb += "e";
    }
    refuse(from_text(bomb + "."));
}

BOOST_AUTO_TEST_CASE(a_footer_survives_and_damage_shows) {
    format::native::file_footer f{"0123456789abcdef0123456789abcdef",
                                  {{0, 900, 700, 100, {7}}, {4096, 70000, 704, 65537, {1, 2}}}};
    auto const b = format::native::encode_footer(f);
    auto const tail = std::span(b).last(format::native::footer_tail_bytes);
    BOOST_TEST(format::native::footer_length(tail) == b.size());
    BOOST_TEST((format::native::decode_footer(b) == f));
    for (std::size_t i = 0; i < b.size(); ++i) {
        auto d = b;
        d[i] ^= std::byte{0x10};
        auto const d_tail = std::span(d).last(format::native::footer_tail_bytes);
        if (format::native::footer_length(d_tail) != d.size()) continue;  // not found: noticed
        BOOST_CHECK_THROW((void)format::native::decode_footer(d), cairn::error);
    }
}

/// Of many tensors, more kinds than are kept, and kinds that differ in one thing only.
BOOST_AUTO_TEST_CASE(items_of_many_tensors_are_those_of_each) {
    using format::torch::tensor_spec;
    std::vector<tensor_spec> all;
    for (std::int64_t n = 1; n <= 40; ++n)
        all.push_back({cairn::dtype::float32, {n, 2}, {2, 1}, static_cast<std::uint64_t>(2 * n)});
    for (auto const& other : std::vector<tensor_spec>{
             {cairn::dtype::int32, {4, 2}, {2, 1}, 8},
             {cairn::dtype::float32, {2, 4}, {4, 1}, 8},
             {cairn::dtype::float32, {4, 2}, {1, 4}, 8},
             {cairn::dtype::float32, {4, 2}, {2, 1}, 8, 4096},
             {cairn::dtype::float32, {4, 2}, {2, 1}, 9},
         }) {
        all.push_back({cairn::dtype::float32, {4, 2}, {2, 1}, 8});
        all.push_back(other);
    }
    format::torch::tensor_items items;
    for (int round = 0; round < 3; ++round)
        for (std::size_t k = 0; k < all.size(); k += static_cast<std::size_t>(round) + 1) {
            format::torch::tensor_item const alone(all[k]);
            auto const& one = items.of(all[k]);
            auto const crc = static_cast<std::uint32_t>(k * 7919);
            BOOST_TEST_CONTEXT(k) {
                BOOST_TEST(std::ranges::equal(one.prefix(), alone.prefix()));
                BOOST_TEST((one.suffix(crc) == alone.suffix(crc)));
                BOOST_TEST(one.length() == alone.length());
                BOOST_TEST(one.item_crc(crc) == alone.item_crc(crc));
            }
        }
}

BOOST_AUTO_TEST_SUITE_END()
