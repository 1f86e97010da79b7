// SPDX-License-Identifier: Apache-2.0
// The suite for formats, on formats that are not ours: the example's and the archetypes'.
#include "archetype/storage_reader.hpp"
#include "archetype/storage_writer.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include "../examples/own_storage.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/save.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(own_storage)

namespace arch = cairn::archetype;

namespace {

struct raw_place {
    std::shared_ptr<support::scratch> dir = std::make_shared<support::scratch>();
    std::shared_ptr<std::list<call_log>> logs = std::make_shared<std::list<call_log>>();

    std::string id() const { return (dir->dir / "c").string(); }
    raw_writer writer() {
        return {[](int rank, const std::string& save_id) {
                    return save_id + "-" + std::to_string(rank);
                },
                logs->emplace_back()};
    }
    raw_reader reader() { return {}; }
    std::set<std::string> names() const {
        std::set<std::string> out;
        for (auto const& f : std::filesystem::directory_iterator(id()))
            out.insert(f.path().filename().string());
        return out;
    }
};

struct shelf_place {
    std::shared_ptr<arch::shelf> at = std::make_shared<arch::shelf>();

    std::string id() const { return "c"; }
    auto writer() { return arch::storage_writer(at); }
    auto reader() { return arch::storage_reader(at); }
    std::set<std::string> names() { return at->names("c"); }
};

/// A store that has met something.
struct telling_store : cairn::memory_store {
    std::string said{};
    std::vector<std::string> take_warnings() {
        auto const now = std::exchange(said, {});
        return now.empty() ? std::vector<std::string>() : std::vector{now};
    }
};

}  // namespace

/// Each rank has its own host.
BOOST_AUTO_TEST_CASE(warnings_of_the_stores_of_all_ranks_are_in_the_report) {
    telling_store const place;
    std::mutex m;
    std::vector<std::string> told;
    cairn::run_ranks(4, [&](cairn::thread_group::member& me) {
        auto mine = place;
        mine.said = me.rank() == 0   ? "a slow disk"
                    : me.rank() == 3 ? "no locks"
                                     : "names may be lost";
        std::vector<float> w(8, 1.0f);
        cairn::state_dict const sd{{"w" + std::to_string(me.rank()), w}};
        auto report = cairn::save(sd, "", me, mine);
        std::lock_guard const lock(m);
        if (me.rank() == 0) told = std::move(report.warnings);
    });
    std::vector<std::string> const want{"a slow disk", "rank 1 and 1 more: names may be lost",
                                        "rank 3: no locks"};
    std::sort(told.begin(), told.end());
    BOOST_TEST(told == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_examples_own_format_keeps_its_word) {
    support::no_failures(cairn::testing::storage_suite([] { return raw_place(); }));
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    support::no_failures(cairn::testing::storage_suite([] { return shelf_place(); }));
}

BOOST_AUTO_TEST_SUITE_END()
