// SPDX-License-Identifier: Apache-2.0
// A load says what no checksum vouches for.
#include "support/whole.hpp"

#include <cairn/storage/unverified.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(unverified_content)

namespace fs = std::filesystem;

namespace {

fs::path const golden = CAIRN_GOLDEN;

template <class Store>
std::vector<std::string> unverified(Store store, const std::string& id) {
    cairn::torch_reader reader(store);
    reader.reset(id);
    auto w = support::room_for(reader.read_metadata());
    auto sd = support::views(w);
    return cairn::load(sd, id, store).unverified;
}

bool any_contains(const std::vector<std::string>& lines, const std::string& what) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](auto const& l) { return l.find(what) != std::string::npos; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_that_cairn_wrote_is_unverified) {
    cairn::memory_store store;
    std::vector<float> w(9, 1);
    cairn::state_dict sd{{"w", w}, {"step", 7}};
    cairn::save(sd, "c", store);
    BOOST_TEST(unverified(store, "c").empty());
}

BOOST_AUTO_TEST_CASE(pytorchs_metadata_and_kinship_are_unverified) {
    auto const lines =
        unverified(cairn::file_store(), (golden / "torch-2.14.1/kinds/checkpoint").string());
    BOOST_TEST(lines.size() == 2u);
    BOOST_TEST(any_contains(lines, ".metadata"));
    BOOST_TEST(any_contains(lines, "data files"));
}

BOOST_AUTO_TEST_CASE(items_that_pytorch_wrote_without_checksums_are_unverified) {
    auto const id = (golden / "crafted/L_nocrc").string();
    auto const lines = unverified(cairn::file_store(), id);
    BOOST_TEST(lines.size() == 3u);
    BOOST_TEST(any_contains(lines, "__0_0.distcp': 2 items were written without a checksum"));
    // What they hold is what the same tensors hold with checksums.
    auto const with = support::load_whole(cairn::file_store(), (golden / "crafted/A_min").string());
    BOOST_TEST((support::load_whole(cairn::file_store(), id) == with));
}

/// One checksum of an item cleared is damage, not an item without checksums.
BOOST_AUTO_TEST_CASE(a_checksum_that_was_cleared_is_damage) {
    auto const dir = golden / "crafted/A_min";
    cairn::memory_store store;
    for (auto const& e : fs::directory_iterator(dir)) {
        std::ifstream f(e.path(), std::ios::binary);
        std::string s{std::istreambuf_iterator<char>(f), {}};
        if (e.path().extension() == ".distcp") {
            // The directory's record of the tensor: signature, 12 bytes, CRC, …, name at 46.
            auto const name = s.rfind("data/0");
            BOOST_REQUIRE(name != std::string::npos);
            auto const record = s.rfind("PK\x01\x02", name);
            BOOST_REQUIRE(record != std::string::npos);
            s.replace(record + 16, 4, 4, '\0');
        }
        store.publish("c/" + e.path().filename().string(),
                      std::as_bytes(std::span(s.data(), s.size())), std::nullopt);
    }
    BOOST_CHECK_EXCEPTION((void)support::load_whole(store, "c"), cairn::error, [](const auto& e) {
        return e.code() == cairn::make_error_code(cairn::errc::checksum_mismatch);
    });
}

BOOST_AUTO_TEST_CASE(many_names_with_one_reason_are_one_line) {
    cairn::unverified notes;
    for (int i = 0; i < 500; ++i)
        notes.note_unread("value." + std::to_string(100 + i), "class a.B");
    notes.note_unread("other", "class a.C");
    auto const lines = notes.lines();
    BOOST_TEST_REQUIRE(lines.size() == 2u);
    BOOST_TEST(lines[0] == "'value.100', 'value.101', 'value.102' and 497 more: class a.B");
    BOOST_TEST(lines[1] == "'other': class a.C");
}

BOOST_AUTO_TEST_SUITE_END()
