// SPDX-License-Identifier: Apache-2.0
#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace st = cairn::format::safetensors;
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view s) {
    return std::as_bytes(std::span(s));
}
/// @param data   Number of bytes behind the header.
/// @param piece  The header arrives in pieces of this size.
st::header header_of(const std::string& json, std::uint64_t data, std::size_t piece = 1000) {
    std::size_t at = 0;
    auto const next = [&] {
        auto const some = bytes_of(std::string_view(json).substr(at, piece));
        at += some.size();
        return some;
    };
    return st::read_header(next, json.size(), st::length_bytes + json.size() + data);
}
std::string why_refused(const std::string& json, std::uint64_t data) {
    try {
        (void)header_of(json, data);
    } catch (const cairn::error& e) {
        return e.what();
    }
    return "not refused";
}
bool says(const std::string& text, std::string_view part) {
    if (text.find(part) != text.npos) return true;
    BOOST_TEST_MESSAGE(text);
    return false;
}
st::header header_of_file(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const all = bytes_of(s);
    auto const n = st::header_length(all.first<st::length_bytes>(), s.size());
    return header_of(s.substr(st::length_bytes, n), s.size() - st::length_bytes - n);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors)

BOOST_AUTO_TEST_CASE(a_header_may_arrive_in_pieces_of_any_size) {
    std::string const json =
        R"( {"__metadata__":{"format":"pt"},"b\u00e9":{"dtype":"F32","shape":[2,3],)"
        R"("data_offsets":[2,26],"more":{"x":[1,{"y":2}]}},)"
        R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}   )";
    for (std::size_t const piece : {1u, 2u, 3u, 7u, 1000u}) {
        auto const h = header_of(json, 26, piece);
        BOOST_TEST(h.text.at("format") == "pt");
        BOOST_REQUIRE(h.tensors.size() == 2);
        auto const &a = h.tensors[0], &b = h.tensors[1];
        BOOST_TEST(a.name == "a");
        BOOST_TEST((a.type == cairn::dtype::bfloat16 && a.shape.empty()));
        BOOST_TEST(b.name == "b\xc3\xa9");
        BOOST_TEST((b.shape == cairn::index_vector{2, 3}));
        BOOST_TEST(b.offset == st::length_bytes + json.size() + 2);
        BOOST_TEST(b.length == 24u);
    }
}

BOOST_AUTO_TEST_CASE(elements_smaller_than_a_byte_are_bytes) {
    auto const one = [](const char* dtype, const char* shape, std::uint64_t bytes) {
        auto const h =
            header_of(std::string(R"({"x":{"dtype":")") + dtype + R"(","shape":)" + shape +
                          R"(,"data_offsets":[0,)" + std::to_string(bytes) + "]}}",
                      bytes);
        return std::pair(h.tensors.at(0).type, h.tensors.at(0).shape);
    };
    using shape = cairn::index_vector;
    BOOST_TEST((one("F4", "[3,4]", 6) == std::pair(cairn::dtype::float4_e2m1fn_x2, shape{3, 2})));
    BOOST_TEST((one("F6_E2M3", "[2,8]", 12) == std::pair(cairn::dtype::uint8, shape{2, 6})));
    BOOST_TEST((one("F6_E3M2", "[4,1]", 3) == std::pair(cairn::dtype::uint8, shape{3})));
}

BOOST_AUTO_TEST_CASE(a_header_that_contradicts_itself_is_refused_by_tensor) {
    auto const tensor = [](const char* name, const char* dtype, const char* shape,
                           const char* offsets) {
        return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
               R"(,"data_offsets":)" + offsets + "}";
    };
    auto const x = tensor("x", "U8", "[4]", "[0,4]");
    auto const one = [](const std::string& t) { return "{" + t + "}"; };
    BOOST_TEST(why_refused(one(x), 4) == "not refused");
    BOOST_TEST(why_refused(one(x) + "  \n", 4) == "not refused");
    BOOST_TEST(why_refused("{}", 0) == "not refused");
    struct {
        std::string json;
        std::uint64_t data;
        const char* says;
    } const all[] = {
        {one(x), 5, "tensors up to the end of the file"},
        {one(x + "," + tensor("y", "U8", "[4]", "[5,9]")), 9, "begins where the one before ends"},
        {one(x + "," + tensor("y", "U8", "[4]", "[2,6]")), 6, "begins where the one before ends"},
        {one(x + "," + tensor("x", "U8", "[4]", "[4,8]")), 8, "each tensor once"},
        {one(tensor("x", "U8", "[5]", "[0,4]")), 4, "U8 of shape [5]"},
        {one(tensor("x", "F4", "[3]", "[0,2]")), 2, "F4 of shape [3]"},
        {one(tensor("x", "U8", "[4]", "[4,0]")), 4, "4 to 0"},
        {one(tensor("x", "U8", "[4]", "[0,5]")), 4, "0 to 5"},
        {one(tensor("x", "U8", "[-4]", "[0,4]")), 4, "non-negative integers"},
        {one(tensor("x", "U8", "[4.0]", "[0,4]")), 4, "non-negative integers"},
        {one(tensor("x", "U8", "[[4]]", "[0,4]")), 4, "non-negative integers"},
        {one(tensor("x", "U8", "4", "[0,4]")), 4, "non-negative integers"},
        {one(tensor("x", "U8", "[4]", "[0,4,4]")), 4, "two offsets"},
        {one(tensor("x", "U8", "[4]", "[0]")), 4, "not all of them"},
        {one(tensor("x", "U8", "[4294967296,4294967296]", "[0,4]")), 4, "shape of a tensor"},
        {one(tensor("x", "U8", "[9223372036854775808]", "[0,4]")), 4, "non-negative integers"},
        {one(tensor("x", "", "[4]", "[0,4]")), 4, "one string as dtype"},
        {one(tensor("x", "Q4", "[4]", "[0,5]")), 4, "0 to 5"},
        {one(tensor("x", "Q4", "[4]", "[0,3]")), 4, "tensors up to the end of the file"},
        {one(R"("x":{"dtype":"Q4","dtype":"Q4","shape":[4],"data_offsets":[0,4]})"), 4, "dtype"},
        {one(R"("x":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"), 4, "dtype"},
        {one(R"("x":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]})"), 4, "shape"},
        {one(R"("x":{"dtype":1,"shape":[4],"data_offsets":[0,4]})"), 4, "one string as dtype"},
        {one(R"("x":{"dtype":"U8","shape":[4]})"), 4, "not all of them"},
        {one(R"("x":[4])"), 4, "an object for each tensor"},
        {one(R"("__metadata__":{"a":1})"), 0, "strings in __metadata__"},
        {one(R"("__metadata__":{"a":"1","a":"2"})"), 0, "'a' twice"},
        {one(R"("__metadata__":{},"__metadata__":{})"), 0, "one __metadata__"},
        {"[]", 0, "a JSON object"},
        {"3", 0, "a JSON object"},
        {one(x) + "{}", 4, "more than one value"},
        {one(x) + std::string(1, '\0'), 4, "more than one value"},
        {"{", 0, "JSON"},
        {"", 0, "JSON"},
        {one("\"\xff\":{}"), 0, "JSON"},
        {std::string(10000, '['), 0, "a JSON object"},
        {one(R"("x":{"more":)" + std::string(10000, '[')), 0, "32 levels"},
        {one(R"("\ud800":{})"), 0, "surrogate"},
        {one(R"("\udc00":{})"), 0, "surrogate"},
        {one(R"("\ud800\u0041":{})"), 0, "surrogate"},
        {one(R"("\x":{})"), 0, "unknown escape"},
        {one(R"("\u12g4":{})"), 0, "four hex digits"},
        {one("\"a\nb\":{}"), 0, "control character"},
        {one("\"a\" {}"), 0, "without ':'"},
        {one("1:{}"), 0, "else than a key"},
        {one(x + ","), 4, "else than a key"},
        {one(R"("x":{"more":01})"), 0, "neither ','"},
        {one(R"("x":{"more":1.})"), 0, "without a digit"},
        {one(R"("x":{"more":1e})"), 0, "without a digit"},
        {one(R"("x":{"more":-})"), 0, "without a digit"},
        {one(R"("x":{"more":nul})"), 0, "no value"},
        {one(R"("x":{"more":[1,]})"), 0, "no value"},
    };
    for (auto const& a : all)
        BOOST_TEST(says(why_refused(a.json, a.data), a.says), a.json.substr(0, 200));
}

BOOST_AUTO_TEST_CASE(a_length_that_no_header_can_have_is_refused_before_memory_is_taken) {
    auto const length = [](std::string_view b, std::uint64_t size) {
        return st::header_length(bytes_of(b).first<st::length_bytes>(), size);
    };
    BOOST_TEST(length(std::string_view("\x02\0\0\0\0\0\0\0", 8), 10) == 2u);
    BOOST_CHECK_THROW(length(std::string_view("\x03\0\0\0\0\0\0\0", 8), 10), cairn::error);
    BOOST_CHECK_THROW(length(std::string_view("\0\0\0\0\0\0\0\x40", 8), 10), cairn::error);
    BOOST_CHECK_THROW(length(std::string_view("\0\0\0\x10\0\0\0\0", 8), UINT64_MAX), cairn::error);
}

BOOST_AUTO_TEST_CASE(an_index_and_the_places_of_shards_are_read) {
    auto const map = st::weight_map(
        bytes_of(R"({"metadata":{"total_size":7},"weight_map":{"a":"x.safetensors","b":"y"}})"));
    BOOST_TEST(map.size() == 2u);
    BOOST_TEST(map.at("a") == "x.safetensors");
    for (auto const* bad : {"{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})",
                            R"({"weight_map":{"a":"x","a":"x"}})", "[]"})
        BOOST_CHECK_THROW((void)st::weight_map(bytes_of(bad)), cairn::error);
    auto const info = st::sharding_info(
        R"({"a":{"saved_offsets":[4,0],"global_shape":[9,9]},"s":{"saved_offsets":[]}})");
    BOOST_TEST((info.at("a").offsets == cairn::index_vector{4, 0}));
    BOOST_TEST((info.at("a").global_shape == cairn::index_vector{9, 9}));
    BOOST_TEST((info.at("s").offsets == cairn::index_vector{}));
    BOOST_TEST(!info.at("s").global_shape.has_value());
    auto const named = st::sharding_info(
        R"({"a.0":{"logical_fqn":"a","saved_offsets":[4]},"b":{"logical_fqn":["b"]}})");
    BOOST_TEST((named.at("a.0").logical_fqn == "a"));
    BOOST_TEST((named.at("a.0").offsets == cairn::index_vector{4}));
    BOOST_TEST(!named.contains("b"));
    for (auto const* bad : {R"({"a":{"saved_offsets":[-1]}})", R"({"a":{"saved_offsets":3}})",
                            R"({"a":{"saved_offsets":[1],"saved_offsets":[1]}})"})
        BOOST_CHECK_THROW((void)st::sharding_info(bad), cairn::error);
}

BOOST_AUTO_TEST_CASE(files_of_other_writers_are_read_and_hostile_ones_are_not) {
    fs::path const golden = fs::path(CAIRN_GOLDEN) / "formats";
    for (auto const* file : {"mlx/weights", "names/names", "numpy/model", "torch_kinds/kinds"})
        BOOST_TEST(!header_of_file(golden / "safetensors" / (std::string(file) + ".safetensors"))
                        .tensors.empty(),
                   file);
    for (auto const* bad : {"st_header_longer_than_file", "st_overlap", "st_shape_too_large"})
        BOOST_CHECK_THROW((void)header_of_file(golden / "hostile" / bad / "model.safetensors"),
                          cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
