// SPDX-License-Identifier: Apache-2.0
// Files of torch.save that are laid out, against the bytes that PyTorch 2.13 wrote.
#include "support/laid_out.hpp"
#include "support/sha256.hpp"
#include "torch_save_file.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_save_layouts)

namespace {

using cairn::dtype;
using laid_out::fill;
using laid_out::state;
namespace fs = std::filesystem;
namespace ts = cairn::format::torch_save;

fs::path const golden = fs::path(CAIRN_GOLDEN) / "torch_save";

std::string hex(const std::vector<std::byte>& b) {
    std::string s;
    for (auto x : b) {
        s += "0123456789abcdef"[static_cast<unsigned>(x) >> 4];
        s += "0123456789abcdef"[static_cast<unsigned>(x) & 15];
    }
    return s;
}
/// PyTorch hashes the names of the records as its standard library does.
#ifdef __GLIBCXX__
constexpr bool has_hash_of_pytorch = true;
#else
constexpr bool has_hash_of_pytorch = false;
#endif
/// The file without its serialization id, its checksums, and all that follows, where those differ.
std::string comparable(std::string file) {
    if (!has_hash_of_pytorch) file.erase(file.find(".data/serialization_id"));
    return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_nested_state_has_the_bytes_that_pytorch_writes) {
    auto const file = fill(laid_out::simple().file("simple.pt"));
    auto const wanted = torch_save_file::slurp(golden / "simple.pt");
    BOOST_TEST((comparable(file) == comparable(wanted)));
    auto const at = static_cast<std::size_t>(
        std::mismatch(file.begin(), file.end(), wanted.begin(), wanted.end()).first - file.begin());
    BOOST_TEST_MESSAGE("equal up to " << at << " of " << file.size() << ", " << wanted.size());
}

BOOST_AUTO_TEST_CASE(sizes_and_offsets_beyond_4_gib_are_those_of_pytorch) {
    state s;
    std::int64_t const max = 0xffffffff;
    for (auto const& [name, bytes] :
         std::vector<std::pair<std::string, std::int64_t>>{{"a", 10},
                                                           {"max", max},
                                                           {"b", 12},
                                                           {"empty", 0},
                                                           {"less", max - 1},
                                                           {"c", 20},
                                                           {"huge", std::int64_t{5} << 30},
                                                           {"d", 4}})
        s.tensor({name}, dtype::u8, {bytes});
    auto const l = s.file("huge.pt");
    laid_out::without_elements const file(l);
    auto const& all = file.stretches();
    std::ifstream golden_file(golden / "huge.txt");
    std::map<std::uint64_t, std::string> wanted;
    std::uint64_t offset = 0, end = 0;
    for (std::string text; golden_file >> offset >> text; end = offset + text.size() / 2)
        wanted[offset] = text;
    BOOST_TEST(l.file().size == end);
    BOOST_TEST_REQUIRE(all.size() == wanted.size());
    for (auto const& [at, text] : wanted) {
        BOOST_TEST_CONTEXT(at) {
            if (at != wanted.rbegin()->first || has_hash_of_pytorch)
                BOOST_TEST(hex(all.at(at)) == text);
        }
    }
    ts::content const read(file.reader(), l.file().size);
    BOOST_TEST(read.entries().size() == 8u);
    for (auto const& t : l.file().tensors) {
        auto const& stored = std::get<ts::stored_tensor>(read.entries().at(t.fqn).what);
        BOOST_TEST(stored.at.offset == t.offset);
        BOOST_TEST(stored.at.length == laid_out::length_of(t));
    }
}

BOOST_AUTO_TEST_CASE(more_than_65535_records_are_counted_as_by_pytorch) {
    state s;
    for (int i = 0; i < 66000; ++i) s.tensor({"t" + std::to_string(i)}, dtype::u8, {1});
    auto const l = s.file("many.pt");
    BOOST_TEST(l.file().tensors.size() == 66000u);
    std::string file(static_cast<std::size_t>(l.file().size), '\0');
    auto const place = [&](const std::vector<cairn::format::placed_bytes>& all) {
        for (auto const& p : all)
            std::memcpy(file.data() + p.offset, p.bytes.data(), p.bytes.size());
    };
    place(l.fixed());
    place(l.rest(std::vector<std::uint32_t>(66000, laid_out::crc_of(std::string(1, '\0')))));
    if (has_hash_of_pytorch)
        BOOST_TEST(support::sha256(std::as_bytes(std::span(file))) ==
                   "f886d68a71d9b3f1706cab148436831670c140d313a70016be49cd55b6301bbd");
    torch_save_file::opened const o(std::move(file));
    BOOST_TEST(o.all.entries().size() == 66000u);
}

BOOST_AUTO_TEST_CASE(records_are_in_a_folder_of_the_files_name) {
    BOOST_TEST(ts::folder_of("model.pt") == "model");
    BOOST_TEST(ts::folder_of("pytorch_model.v2.bin") == "pytorch_model.v2");
    BOOST_TEST(ts::folder_of("run/step.1/last") == "last");
    BOOST_TEST(ts::folder_of(".pt") == "archive");
    BOOST_TEST(ts::folder_of("mod\xc3\xa8le.pt") == "archive");
}

BOOST_AUTO_TEST_SUITE_END()
