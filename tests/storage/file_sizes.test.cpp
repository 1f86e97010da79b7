// SPDX-License-Identifier: Apache-2.0
#include <cairn/storage/detail/file_sizes.hpp>

#include "support/counting_store.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(file_sizes)

namespace {

using cairn::errc;

void put(cairn::memory_store& s, const std::string& name, std::size_t size) {
    s.publish(name, std::vector<std::byte>(size), std::nullopt);
}
cairn::metadata naming(std::initializer_list<const char*> files) {
    cairn::metadata m;
    for (auto const* f : files) m.entries[f] = cairn::value_metadata{{f, 0, 10, {}, {}}};
    return m;
}
bool noted(auto& store, cairn::metadata& m) {
    std::string newer;
    return cairn::detail::note_file_sizes(store, m, ".metadata", newer);
}
float first_of(const cairn::state_dict& tree) {
    float x = 0;
    std::memcpy(&x, tree.at("w").as_tensor().shards.at(0).view.data, sizeof x);
    return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_sizes_of_pytorchs_files_are_as_they_are_found) {
    cairn::memory_store s;
    put(s, "a", 100);
    put(s, "sub/b", 200);
    put(s, "stranger", 300);
    auto m = naming({"a", "sub/b"});
    BOOST_TEST(noted(s, m));
    BOOST_TEST(m.file_sizes.size() == 2u);
    BOOST_TEST(m.file_sizes.at("a") == 100u);
    BOOST_TEST(m.file_sizes.at("sub/b") == 200u);
    m = naming({"a", "gone", "sub/gone", "../a", ""});
    BOOST_TEST(!noted(s, m));
    for (auto const* name : {"gone", "sub/gone", "../a", ""})
        BOOST_TEST(m.file_sizes.at(name) == 0u, name);
}

/// On a network file system a host may see an old list.
BOOST_AUTO_TEST_CASE(sizes_that_a_list_omits_or_understates_are_looked_at) {
    struct behind : cairn::memory_store {
        std::vector<cairn::object_info> list() {
            auto all = cairn::memory_store::list();
            std::erase_if(all, [](auto const& o) { return o.name == "new"; });
            for (auto& o : all)
                if (o.name == "grown") o.size = 1;
            return all;
        }
    };
    for (bool const recorded : {false, true}) {
        behind s;
        auto m = naming({"new", "grown"});
        for (auto const* name : {"new", "grown"}) {
            put(s, name, 100);
            if (recorded) m.file_sizes[name] = 100;
        }
        BOOST_TEST(noted(s, m));
        BOOST_TEST(m.file_sizes.at("new") == 100u);
        BOOST_TEST(m.file_sizes.at("grown") == (recorded ? 100u : 1u));
    }
}

BOOST_AUTO_TEST_CASE(recorded_sizes_stay_unless_they_mislead) {
    cairn::memory_store s;
    put(s, "same", 100);
    put(s, "short", 60);
    put(s, "stump", 40);
    put(s, "long", 1000);
    auto m = naming({"same", "short", "stump", "long", "gone"});
    for (auto const* name : {"same", "short", "stump", "long", "gone"}) m.file_sizes[name] = 100;
    m.file_sizes["unnamed"] = 7;
    BOOST_TEST(!noted(s, m));
    for (auto const* name : {"same", "short", "long"}) BOOST_TEST(m.file_sizes.at(name) == 100u);
    BOOST_TEST(m.file_sizes.at("stump") == 40u);
    BOOST_TEST(m.file_sizes.at("gone") == 0u);
    BOOST_TEST(m.file_sizes.at("unnamed") == 7u);
    auto one = naming({"gone"});
    one.file_sizes["gone"] = 1;
    BOOST_TEST(!noted(s, one));
}

/// PyTorch writes the metadata last.
BOOST_AUTO_TEST_CASE(a_data_file_that_is_newer_than_the_metadata_of_pytorch_is_told) {
    namespace fs = std::filesystem;
    support::scratch dir;
    auto const at = dir.dir / "c";
    fs::copy(CAIRN_GOLDEN "/torch-2.6.0/kinds_3_files/checkpoint", at);
    auto const told = [&] {
        cairn::load_report report;
        (void)cairn::load_tree(at.string(), {.report = &report});
        return std::count_if(report.unverified.begin(), report.unverified.end(), [](auto& line) {
            return line.find("was changed after .metadata") != line.npos;
        });
    };
    auto const now = fs::last_write_time(at / ".metadata");
    for (auto const& e : fs::directory_iterator(at)) fs::last_write_time(e, now);
    BOOST_TEST(told() == 0);
    fs::last_write_time(at / "__0_1.distcp", now + std::chrono::seconds(3));
    BOOST_TEST(told() == 1);
    for (auto const& e : fs::directory_iterator(at))  // a copy, in the order of the names
        if (e.path().extension() == ".distcp")
            fs::last_write_time(e, now + std::chrono::seconds(3));
    BOOST_TEST(told() == 0);
}

/// Between the metadata and the list a save replaces both: the new ones are read.
BOOST_AUTO_TEST_CASE(the_sizes_of_a_checkpoint_that_is_being_replaced_are_of_the_new_one) {
    cairn::memory_store memory;
    auto const save = [&](float x) {
        std::vector<float> w(8, x);
        cairn::save(cairn::state_dict{{"w", w}}, "c", memory);
    };
    save(1);
    support::counting_store store(memory);
    int lists = 0;
    store.on_list([&] {
        if (++lists == 1) save(2);
    });
    BOOST_TEST(first_of(cairn::load_tree("c", {}, store)) == 2.0f);
    BOOST_TEST(lists == 2);
    // One that is replaced each time is given up, with an error that says so.
    lists = 0;
    float x = 3;
    store.on_list([&] {
        ++lists;
        save(x++);
    });
    BOOST_CHECK_EXCEPTION((void)cairn::load_tree("c", {}, store), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::concurrent_save);
                          });
    BOOST_TEST(lists % 4 == 0);  // for each look at the metadata
    BOOST_TEST(lists <= 64);
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_list_is_an_error) {
    cairn::memory_store memory;
    std::vector<float> w(8, 1.0f);
    cairn::save(cairn::state_dict{{"w", w}}, "c", memory);
    support::counting_store store(memory);
    store.on_list([] { throw cairn::error(errc::io, {.found = "no list today"}); });
    BOOST_CHECK_EXCEPTION(
        (void)cairn::load(cairn::state_dict{{"w", w}}, "c", store), cairn::error,
        [](const cairn::error& e) { return e.code() == cairn::make_error_code(errc::io); });
}

BOOST_AUTO_TEST_SUITE_END()
