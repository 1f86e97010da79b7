// SPDX-License-Identifier: Apache-2.0
#include "archetype/object_store.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/testing/object_store.hpp>
#include <cairn/testing/renaming_store.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(object_store)

namespace fs = std::filesystem;

namespace {

using cairn::testing::browsable_store_suite;
using cairn::testing::object_store_suite;
using cairn::testing::renaming_store_suite;
using support::no_failures;

struct scratch : support::scratch {
    int n = 0;
    fs::path next() { return dir / ("place" + std::to_string(n++)); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_memory_store_keeps_its_word) {
    no_failures(object_store_suite([] { return cairn::memory_store(); }));
    no_failures(object_store_suite([] { return cairn::memory_store().at("a").at("b"); }));
}

BOOST_AUTO_TEST_CASE(the_file_store_keeps_its_word) {
    scratch s;
    no_failures(object_store_suite([&] { return cairn::file_store(s.next()); }));
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    namespace arch = cairn::archetype;
    no_failures(object_store_suite([] { return arch::object_store({}); }));
    no_failures(object_store_suite([] { return arch::relocatable_store({}); }));
}

BOOST_AUTO_TEST_CASE(places_can_be_listed) {
    no_failures(browsable_store_suite([] { return cairn::memory_store(); }));
    no_failures(browsable_store_suite([] { return cairn::memory_store().at("a").at("b"); }));
    scratch s;
    no_failures(browsable_store_suite([&] { return cairn::file_store(s.next()); }));
    no_failures(browsable_store_suite([] { return cairn::archetype::browsable_store({}); }));
    no_failures(browsable_store_suite([] { return cairn::any_store(cairn::memory_store()); }));
}

BOOST_AUTO_TEST_CASE(places_and_objects_can_be_renamed) {
    no_failures(renaming_store_suite([] { return cairn::memory_store(); }));
    no_failures(renaming_store_suite([] { return cairn::memory_store().at("a").at("b"); }));
    scratch s;
    no_failures(renaming_store_suite([&] { return cairn::file_store(s.next()); }));
    no_failures(renaming_store_suite([] { return cairn::archetype::renaming_store({}); }));
    no_failures(renaming_store_suite([] { return cairn::any_store(cairn::memory_store()); }));
    try {
        cairn::any_store(cairn::archetype::relocatable_store({})).exchange("a", "b");
        BOOST_ERROR("a store that cannot rename has renamed");
    } catch (const cairn::error& e) {
        BOOST_TEST((e.code() == make_error_code(cairn::errc::unsupported)));
    }
}

/// What is removed is never reached through a link.
BOOST_AUTO_TEST_CASE(a_tree_is_removed_without_what_its_links_lead_to) {
    scratch s;
    cairn::file_store files(s.next());
    fs::path const root = files.directory();
    files.at("kept").publish("o", {}, std::nullopt);
    files.at("tree/below").publish("o", {}, std::nullopt);
    fs::create_directory_symlink(root / "kept", root / "tree/link");
    fs::create_symlink(root / "kept/o", root / "tree/below/link");
    BOOST_TEST((files.kind_of("tree/link") == cairn::name_kind::other));
    files.remove_tree("tree");
    BOOST_TEST(!fs::exists(root / "tree"));
    BOOST_TEST(fs::exists(root / "kept/o"));
}

/// Whatever a store can do, its places can.
BOOST_AUTO_TEST_CASE(a_prefixed_store_keeps_the_word_of_its_store) {
    using over_files = cairn::prefixed_store<cairn::file_store>;
    using over_memory = cairn::prefixed_store<cairn::memory_store>;
    static_assert(cairn::UnsyncedStore<over_files> && cairn::WarningStore<over_files> &&
                  cairn::WriteBackStore<over_files> && cairn::BrowsableStore<over_files>);
    static_assert(cairn::RenamingStore<over_files> && cairn::RenamingStore<over_memory>);
    static_assert(!cairn::UnsyncedStore<over_memory> && !cairn::WarningStore<over_memory>);
    scratch s;
    std::list<cairn::file_store> files;
    auto const make = [&] { return over_files(files.emplace_back(s.next())); };
    auto const within = [&] { return make().at("p"); };
    no_failures(object_store_suite(make));
    no_failures(object_store_suite(within));
    no_failures(browsable_store_suite(make));
    no_failures(browsable_store_suite(within));
    no_failures(renaming_store_suite(make));
    no_failures(renaming_store_suite(within));
    auto store = make();
    (void)store.at("p").at("a").create("o", 0);
    fs::create_directory_symlink(s.dir, fs::path(files.back().directory()) / "link");
    auto const all = store.all_places();
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(all[0].linked);
    BOOST_TEST(store.place_id((fs::path(files.back().directory()) / "p").string()) == "p");
}

BOOST_AUTO_TEST_CASE(what_is_hidden_or_a_link_is_no_place) {
    scratch s;
    auto const root = s.next();
    cairn::file_store files(root);
    files.at("step_1").publish("o", {}, std::nullopt);
    fs::create_directory(root / ".hidden");
    fs::create_directory_symlink(root / "step_1", root / "latest");
    std::vector<std::string> const want{"step_1"};
    BOOST_TEST(files.places() == want, boost::test_tools::per_element());
    files.remove_place("latest");
    BOOST_TEST(fs::is_symlink(root / "latest"));
    BOOST_TEST(cairn::file_store(root / "absent").places().empty());
}

/// Removing an empty place never makes a save fail that begins there.
BOOST_AUTO_TEST_CASE(a_place_that_is_removed_as_it_is_used_comes_back) {
    scratch s;
    auto const root = s.next();
    cairn::file_store files(root);
    files.publish("o", {}, std::nullopt);
    std::atomic<bool> done{false};
    std::thread remover([&] {
        for (int i = 0; !done; ++i) {
            files.remove_place("p");
            // At times long after: while a busy disk is synced, the place must stay.
            std::this_thread::sleep_for(std::chrono::microseconds(20 << (i % 13)));
        }
    });
    std::string said;
    try {
        auto place = files.at("p");
        for (int i = 0; i < 2000; ++i) {
            place.publish("a", {}, std::nullopt);
            place.remove("a");
            place.create("b", 0).finish(false);
            place.remove("b");
        }
    } catch (const std::exception& e) {
        said = e.what();
    }
    done = true;
    remover.join();
    BOOST_TEST(said == "");
}

BOOST_AUTO_TEST_CASE(names_stay_in_their_place) {
    scratch s;
    cairn::file_store files(s.next());
    cairn::memory_store memory;
    for (auto const* name : {"", "/etc/x", "../x", "a/../../x"}) {
        BOOST_CHECK_THROW(files.create(name, 1), cairn::error);
        BOOST_CHECK_THROW(memory.create(name, 1), cairn::error);
    }
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_is_an_error_that_names_it) {
    scratch s;
    std::ofstream(s.dir / "file") << "x";
    cairn::file_store store(s.dir / "file" / "below");
    BOOST_CHECK_EXCEPTION(store.create("o", 1), cairn::error, [](const cairn::error& e) {
        return std::string(e.what()).find("below") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_nothing_behind) {
    scratch s;
    cairn::file_store store(s.next());
    auto const size = std::uint64_t{1} << 60;  // more than any disk has
    BOOST_CHECK_EXCEPTION(store.create("o", size), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::io);
    });
    BOOST_TEST(store.list().empty());
}

namespace {

void put(cairn::file_store& s, const char* name) {
    auto h = s.create(name, 1);
    h.write(0, cairn::byte_vector(1));
    h.finish(true);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_relative_place_is_within_an_absolute_one_instead) {
    scratch s;
    auto const base = s.next();
    cairn::file_store const store(base);
    BOOST_TEST(fs::path(store.at("step_1").directory()) == base / "step_1");
    BOOST_TEST(fs::path(store.at("a").at("b").directory()) == base / "a" / "b");
    BOOST_TEST(fs::path(store.at(s.dir.string()).directory()) == s.dir);
    BOOST_TEST(fs::path(store.at("").directory()) == base);
    BOOST_TEST(fs::path(cairn::file_store().at("step_1").directory()) ==
               fs::current_path() / "step_1");
    BOOST_TEST(fs::path(cairn::file_store("./a/").at("./b/").directory()) ==
               fs::current_path() / "a" / "b");
    auto nested = store.at("step_1");
    put(nested, "o");
    BOOST_TEST(fs::exists(base / "step_1" / "o"));
    cairn::memory_store memory;
    auto in_memory = memory.at("ckpts").at("step_1");
    in_memory.publish("o", {}, std::nullopt);
    BOOST_TEST(!memory.tag("ckpts/step_1/o").text.empty());
}

/// Clocks of file systems are coarse, and numbers of files are used again.
BOOST_AUTO_TEST_CASE(a_tag_tells_files_apart_that_differ_in_their_last_bytes_alone) {
    scratch s;
    cairn::file_store store(s.next());
    constexpr std::uint64_t block = 64 << 10;
    for (std::uint64_t const size : {std::uint64_t{1}, block - 1, block, block + 1, 3 * block}) {
        store.publish("o", std::vector<std::byte>(size), std::nullopt);
        auto const path = fs::path(store.directory()) / "o";
        auto const when = fs::last_write_time(path);
        auto const before = store.tag("o");
        BOOST_TEST(store.tag("o").text == before.text);
        auto const change = [&](std::uint64_t at, char to) {
            {
                std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
                f.seekp(static_cast<std::streamoff>(at)).put(to);
            }
            fs::last_write_time(path, when);
        };
        for (auto const at : {size - 1, size - std::min(size, block)}) {
            change(at, 'x');
            BOOST_TEST(store.tag("o").text != before.text, size << " bytes, changed at " << at);
            change(at, '\0');
            BOOST_TEST(store.tag("o").text == before.text);
        }
    }
}

/// A save asks for the tag of what it replaces, which may have gigabytes.
BOOST_AUTO_TEST_CASE(a_tag_does_not_read_a_large_file) {
    scratch s;
    cairn::file_store store(s.next());
    put(store, "o");
    auto const path = fs::path(store.directory()) / "o";
    fs::resize_file(path, std::uintmax_t{1} << 40);  // takes no space
    auto const before = store.tag("o");
    BOOST_TEST(!before.text.empty());
    fs::resize_file(path, (std::uintmax_t{1} << 40) + 1);
    BOOST_TEST(store.tag("o").text != before.text);
}

BOOST_AUTO_TEST_CASE(links_are_neither_followed_nor_removed) {
    scratch s;
    auto const place = s.next(), elsewhere = s.next();
    cairn::file_store store(place), other(elsewhere);
    put(store, "real");
    put(other, "precious");
    fs::create_directory_symlink(elsewhere, place / "sub");
    fs::create_symlink(elsewhere / "precious", place / "link");
    fs::create_symlink("nowhere", place / "dangling");
    fs::create_directories(place / "deep");
    fs::create_directory_symlink(elsewhere, place / "deep" / "sub");
    auto const is_link = [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::unsupported) &&
               std::string(e.what()).find("symbolic link") != std::string::npos;
    };
    for (auto const* name : {"sub/precious", "deep/sub/precious", "sub", "link", "dangling"})
        BOOST_CHECK_EXCEPTION(store.remove(name), cairn::error, is_link);
    BOOST_TEST(fs::exists(elsewhere / "precious"));
    BOOST_TEST(fs::is_symlink(place / "link"));
    for (auto const* absent : {"none", "none/x", "real/x", "deep/none"})
        BOOST_CHECK_NO_THROW(store.remove(absent));
    BOOST_CHECK_THROW(store.remove("deep"), cairn::error);  // a directory
    store.remove("real");
    BOOST_TEST(!fs::exists(place / "real"));
    // The place itself may be reached through one.
    fs::create_directory_symlink(elsewhere, s.dir / "door");
    cairn::file_store(s.dir / "door").remove("precious");
    BOOST_TEST(!fs::exists(elsewhere / "precious"));
}

/// Another job has presumed its writer dead, and may have written a file under the same name since.
BOOST_AUTO_TEST_CASE(a_file_that_was_removed_while_it_was_written_is_not_finished) {
    for (bool const replaced : {false, true}) {
        scratch s;
        auto const place = s.next();
        cairn::file_store store(place);
        {
            auto h = store.create("o", 1);
            h.write(0, cairn::byte_vector(1));
            fs::remove(place / "o");
            if (replaced) std::ofstream(place / "o") << "of another";
            BOOST_CHECK_EXCEPTION(h.finish(false), cairn::error, [&](const cairn::error& e) {
                return e.code() == cairn::make_error_code(cairn::errc::io) &&
                       std::string(e.what()).find((place / "o").string()) != std::string::npos;
            });
        }
        BOOST_TEST(fs::exists(place / "o") == replaced);
    }
}

BOOST_AUTO_TEST_SUITE_END()
