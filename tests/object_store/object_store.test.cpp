// SPDX-License-Identifier: Apache-2.0
#include "archetype/object_store.hpp"
#include "conformance/object_store.hpp"
#include "support/scratch.hpp"
#include "../examples/own_object_store.hpp"

#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

BOOST_AUTO_TEST_SUITE(object_store)

namespace fs = std::filesystem;

namespace {

struct scratch : support::scratch {
    int n = 0;
    fs::path next() { return dir / ("place" + std::to_string(n++)); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(memory_store_keeps_its_word) {
    cairn::conformance::check_object_store([] { return cairn::memory_store(); });
    cairn::conformance::check_object_store([] { return cairn::memory_store().at("a").at("b"); });
}

BOOST_AUTO_TEST_CASE(file_store_keeps_its_word) {
    scratch s;
    cairn::conformance::check_object_store([&] { return cairn::file_store(s.next()); });
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    namespace arch = cairn::archetype;
    cairn::conformance::check_object_store([] { return arch::object_store({}); });
    cairn::conformance::check_object_store([] { return arch::relocatable_store({}); });
}

BOOST_AUTO_TEST_CASE(an_examples_own_store_keeps_its_word) {
    cairn::conformance::check_object_store([] { return my_store(); });
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

BOOST_AUTO_TEST_SUITE_END()
