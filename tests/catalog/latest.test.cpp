// SPDX-License-Identifier: Apache-2.0
// The newest checkpoint of a directory, for one process.
#include "saved.hpp"

#include <cairn/catalog/latest.hpp>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(catalog_latest)

using namespace catalog;

namespace {

struct asked {
    std::vector<std::string> said{};
    cairn::latest_options with(cairn::verify_level level, bool quarantine = false) {
        return {level, quarantine, [this](const std::string& s) { said.push_back(s); }};
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(is_the_one_committed_last) {
    place p;
    BOOST_TEST(!cairn::latest(p.dir.string()).has_value());
    save_steps(cairn::file_store(p.dir), {100, 300});
    BOOST_TEST(cairn::latest(p.dir.string()).value() == p.at(300).string());
    save_steps(cairn::file_store(p.dir), {200});
    BOOST_TEST(cairn::latest(p.dir.string()).value() == p.at(200).string());
    cairn::memory_store store;
    save_steps(store, {5});
    BOOST_TEST(cairn::latest(store).value() == "step_5");
}

BOOST_AUTO_TEST_CASE(what_is_damaged_is_skipped_as_far_as_it_is_looked_at) {
    using cairn::verify_level;
    struct kind {
        const char* file;
        bool removed;
        verify_level found_by;
    };
    for (auto const& k : {kind{".metadata", false, verify_level::metadata},
                          kind{"__0_0.distcp", true, verify_level::metadata},
                          kind{"__0_0.distcp", false, verify_level::sampled}}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        if (k.removed)
            fs::remove(p.at(2) / k.file);
        else
            p.damage(2, k.file);
        for (auto const level :
             {verify_level::metadata, verify_level::sampled, verify_level::full}) {
            bool const found = level >= k.found_by;
            asked a;
            BOOST_TEST(cairn::latest(p.dir.string(), a.with(level)).value() ==
                       p.at(found ? 1 : 2).string());
            BOOST_REQUIRE(a.said.size() == (found ? 1u : 0u));
            if (found) {
                BOOST_TEST(a.said[0].find("step_2") != std::string::npos, a.said[0]);
                BOOST_TEST(a.said[0].find(k.file) != std::string::npos, a.said[0]);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_damaged_one_is_put_aside_on_request) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    fs::remove(p.at(2) / "__0_0.distcp");
    asked a;
    auto const options = a.with(cairn::verify_level::metadata, true);
    BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
    BOOST_TEST(!fs::exists(p.at(2) / ".metadata"));
    BOOST_TEST(fs::exists(p.at(2) / ".metadata.quarantined"));
    BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
    BOOST_TEST(a.said.size() == 1u);
    save_steps(cairn::file_store(p.dir), {2});
    BOOST_TEST(p.stands(2));
}

BOOST_AUTO_TEST_SUITE_END()
