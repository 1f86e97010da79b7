// SPDX-License-Identifier: Apache-2.0
// Headers, names and indices of safetensors files, against what other writers wrote.
#include "support/error_codes.hpp"

#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace safetensors_layouts {

namespace st = cairn::format::safetensors;
namespace fs = std::filesystem;
using cairn::dtype;
using cairn::format::target_tensor;

std::string content_of(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}
fs::path golden(const std::string& name) {
    return fs::path(CAIRN_GOLDEN) / "formats" / name;
}
/// The bytes in front of the elements of a file, and what they say.
struct file_head {
    std::string bytes;
    st::header header;
};
file_head head_of(const fs::path& p) {
    auto const s = content_of(p);
    auto const all = std::as_bytes(std::span(s));
    auto const n = st::header_length(all.first<st::length_bytes>(), s.size());
    bool told = false;
    auto const once = [&] {
        return std::exchange(told, true) ? all.first(0) : all.subspan(st::length_bytes, n);
    };
    return {s.substr(0, st::length_bytes + n), st::read_header(once, n, s.size())};
}
/// The tensors of a header, as whoever writes them knows them: in the order of their names.
std::vector<target_tensor> tensors_of(const st::header& h) {
    std::map<std::string, target_tensor> all;
    for (auto const& t : h.tensors) all[t.name] = {t.name, t.type, t.shape, 0};
    std::vector<target_tensor> out;
    for (auto& [name, t] : all) out.push_back(std::move(t));
    return out;
}
std::string text_of(std::span<const std::byte> b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}
std::string refusal_of(std::vector<target_tensor> tensors) {
    try {
        (void)st::lay_out(std::move(tensors), 1000);
    } catch (const cairn::error& e) {
        return e.what();
    }
    return "accepted";
}

}  // namespace safetensors_layouts

BOOST_AUTO_TEST_SUITE(safetensors_layout)

using namespace safetensors_layouts;

BOOST_AUTO_TEST_CASE(a_header_is_that_of_the_reference_implementation) {
    for (auto const* name : {"safetensors/torch_kinds/kinds.safetensors",
                             "hf/quantised_blocks/model-00001-of-00001.safetensors",
                             "hf/transformers_sharded/model-00001-of-00003.safetensors",
                             "hf/transformers_sharded/model-00002-of-00003.safetensors",
                             "hf/transformers_sharded/model-00003-of-00003.safetensors"}) {
        auto const want = head_of(golden(name));
        auto const made = st::lay_out_file("x", tensors_of(want.header), want.header.text);
        BOOST_TEST(text_of(made.head) == want.bytes);
        BOOST_TEST(made.size == fs::file_size(golden(name)));
        BOOST_TEST_REQUIRE(made.tensors.size() == want.header.tensors.size());
        for (std::size_t i = 0; i < made.tensors.size(); ++i)
            if (want.header.tensors[i].length != 0)  // those of no bytes share an offset
                BOOST_TEST(made.tensors[i].offset == want.header.tensors[i].offset);
    }
}

/// Their headers have no text.
BOOST_AUTO_TEST_CASE(names_and_dtypes_of_files_without_text_are_those_of_the_reference) {
    for (auto const* name :
         {"safetensors/names/names.safetensors", "safetensors/numpy/model.safetensors"}) {
        auto const want = head_of(golden(name));
        std::string const text = R"("__metadata__":{"format":"pt"},)";
        auto made = text_of(st::lay_out_file("x", tensors_of(want.header)).head);
        BOOST_TEST(made.substr(st::length_bytes + 1, text.size()) == text);
        made.erase(0, st::length_bytes + 1 + text.size());
        auto const trimmed = [](std::string s) { return s.substr(0, s.find_last_of('}') + 1); };
        BOOST_TEST(trimmed(made) == trimmed(want.bytes.substr(st::length_bytes + 1)));
    }
}

BOOST_AUTO_TEST_CASE(a_file_begins_its_elements_at_a_multiple_of_eight) {
    for (std::size_t n = 1; n < 20; ++n) {
        auto const made = st::lay_out_file("x", {{std::string(n, 'n'), dtype::float32, {3}, 0}});
        BOOST_TEST(made.head.size() % 8 == 0u);
        BOOST_TEST(made.size == made.head.size() + 12);
    }
    BOOST_TEST(text_of(st::lay_out_file("x", {}).head).substr(8) ==
               R"({"__metadata__":{"format":"pt"}})");
}

BOOST_AUTO_TEST_CASE(packed_halves_of_bytes_are_counted_in_the_last_dimension) {
    auto const made =
        text_of(st::lay_out_file("x", {{"q", dtype::float4_e2m1fn_x2, {2, 3}, 0}}).head);
    BOOST_TEST(made.find(R"("q":{"dtype":"F4","shape":[2,6],"data_offsets":[0,6]})") != made.npos,
               made);
}

BOOST_AUTO_TEST_CASE(files_are_filled_as_save_pretrained_fills_them) {
    auto const dir = golden("hf/transformers_sharded");
    std::map<std::string, target_tensor> all;
    std::map<std::string, std::string> want;
    for (int i = 1; i <= 3; ++i) {
        auto const file = "model-0000" + std::to_string(i) + "-of-00003.safetensors";
        for (auto& t : tensors_of(head_of(dir / file).header)) {
            want[t.fqn] = file;
            all[t.fqn] = t;
        }
    }
    std::vector<target_tensor> ordered{all.at("transformer.wte.weight"),
                                       all.at("transformer.wpe.weight")};
    auto const add = [&](const std::string& module) {
        for (auto const* kind : {".weight", ".bias"})
            ordered.push_back(all.at("transformer." + module + kind));
    };
    for (auto const* layer : {"h.0.", "h.1."})
        for (auto const* module :
             {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"})
            add(std::string(layer) + module);
    add("ln_f");
    BOOST_TEST_REQUIRE(ordered.size() == all.size());
    auto const files = st::lay_out(ordered, 15'000);
    std::map<std::string, std::string> found;
    for (auto const& f : files)
        for (auto const& t : f.tensors) found[t.fqn] = f.name;
    BOOST_TEST((found == want));

    auto const index = st::encode_index(files, {});
    auto const theirs = content_of(dir / "model.safetensors.index.json");
    auto const map_of = [](const std::string& s) { return s.substr(s.find("\"weight_map\"")); };
    BOOST_TEST(map_of(index) == map_of(theirs));
    BOOST_TEST(index.find("\"total_size\": 33600\n") != index.npos);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_larger_than_a_file_has_one_of_its_own) {
    auto const files = st::lay_out({{"a", dtype::uint8, {6}, 0},
                                    {"b", dtype::uint8, {11}, 0},
                                    {"c", dtype::uint8, {4}, 0},
                                    {"d", dtype::uint8, {1}, 0}},
                                   10);
    BOOST_TEST_REQUIRE(files.size() == 3u);
    BOOST_TEST(files[0].name == "model-00001-of-00003.safetensors");
    BOOST_TEST(files[0].tensors.at(0).fqn == "b");
    BOOST_TEST(files[1].tensors.size() == 2u);
    BOOST_TEST(files[2].tensors.at(0).fqn == "d");
    BOOST_TEST(st::lay_out({}, 10).at(0).name == "model.safetensors");
    for (auto const& f : files) BOOST_TEST(st::is_target_name(f.name));
    for (auto const* other : {"model-1-of-2.safetensors", "model-00001.safetensors", "config.json",
                              "model-00001-of-00002.bin", "adapter_model.safetensors"})
        BOOST_TEST(!st::is_target_name(other));
}

BOOST_AUTO_TEST_CASE(what_the_format_has_not_is_refused_by_name) {
    auto const refuses = [](target_tensor t, const char* part) {
        auto const text = refusal_of({{"fine", dtype::float32, {1}, 0}, t});
        BOOST_TEST(text.find(part) != text.npos, text);
        BOOST_TEST(text.find("'" + t.fqn + "'") != text.npos, text);
    };
    refuses({"z", dtype::complex128, {1}, 0}, "complex128");
    refuses({"z", dtype::complex32, {1}, 0}, "complex32");
    refuses({"q", dtype::float4_e2m1fn_x2, {}, 0}, "half bytes");
    refuses({"__metadata__", dtype::float32, {1}, 0}, "another name");
    refuses({"fine", dtype::int8, {1}, 0}, "two of this name");
    BOOST_TEST(refusal_of({{"\xff", dtype::float32, {1}, 0}}).find("UTF-8") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_index_keeps_the_checksums_and_the_id_of_its_save) {
    auto const files =
        st::lay_out({{"a\"\n", dtype::uint8, {6}, 0}, {"b", dtype::uint8, {6}, 0}}, 10);
    st::index_notes const notes{"0123", {{"a\"\n", 0xffffffff}, {"b", 0}}};
    auto const index = st::encode_index(files, notes);
    auto const bytes = std::as_bytes(std::span(index));
    auto const map = st::weight_map(bytes);
    BOOST_TEST(map.at("a\"\n") == "model-00001-of-00002.safetensors");
    BOOST_TEST(map.at("b") == "model-00002-of-00002.safetensors");
    auto const read = st::decode_notes(bytes);
    BOOST_TEST(read.save_id == "0123");
    BOOST_TEST((read.crcs == notes.crcs));
    auto const theirs = content_of(golden("hf/transformers_sharded/model.safetensors.index.json"));
    auto const none = st::decode_notes(std::as_bytes(std::span(theirs)));
    BOOST_TEST((none.save_id.empty() && none.crcs.empty()));
}

/// Nobody could read such a file.
BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_is_refused) {
    for (auto const& text : {st::header_text{{"author", "Jos\xe9"}}, st::header_text{{"\xff", ""}}})
        BOOST_CHECK_EXCEPTION(st::lay_out({{"w", dtype::uint8, {6}, 0}}, 10, text), cairn::error,
                              support::is(cairn::errc::invalid_argument));
}

/// Each header is short enough, and the names are in the index twice.
BOOST_AUTO_TEST_CASE(an_index_that_is_too_long_to_be_read_is_refused) {
    std::vector<target_tensor> many;
    for (int i = 0; i < 120; ++i)
        many.push_back(
            {std::to_string(i) + "\"\n" + std::string(500'000, 'n'), dtype::uint8, {6}, 0});
    auto const half = std::span(many).first(60);
    BOOST_TEST(st::lay_out({half.begin(), half.end()}, 300).size() == 2u);
    BOOST_CHECK_EXCEPTION(st::lay_out(many, 360), cairn::error,
                          support::is(cairn::errc::unsupported));
    std::vector<st::target> files;
    st::index_notes notes{std::string(32, 'f'), {}};
    for (std::size_t i : {0U, 60U}) {
        auto const part = std::span(many).subspan(i, 60);
        files.push_back(st::lay_out_file("\t" + std::to_string(i), {part.begin(), part.end()}));
        for (auto const& t : part) notes.crcs.emplace(t.fqn, UINT32_MAX);
    }
    auto const size = std::to_string(st::encode_index(files, notes).size());
    BOOST_CHECK_EXCEPTION(st::check_index(files), cairn::error,
                          [&](const cairn::error& e) { return e.context().found == size; });
}

BOOST_AUTO_TEST_SUITE_END()
