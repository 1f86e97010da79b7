// SPDX-License-Identifier: Apache-2.0
// PyTorch saves over a checkpoint of cairn's and removes nothing: what nothing names any more is
// collected once it has not changed for a day.
#include "interrupted.hpp"
#include "support/aged_store.hpp"
#include "support/data_files.hpp"
#include "support/whole.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(strays)

using namespace interrupted;
using support::aged_store;

namespace {

/// A checkpoint of PyTorch's over one of cairn's.
struct turns : place {
    std::string stray = "__0_0." + standing_id + ".distcp";

    turns() {
        for (auto const* file : {".metadata", "__0_0.distcp"})
            fs::copy_file(fs::path(CAIRN_GOLDEN) / "crafted/A_min" / file, at / file,
                          fs::copy_options::overwrite_existing);
        BOOST_TEST(has(stray));
    }
    aged_store store(hours modified = hours(25), hours changed = hours(25)) const {
        return {cairn::file_store(dir.dir), modified, changed};
    }
    void save_over(aged_store to) const {
        std::vector<float> w(4, 2);
        cairn::state_dict sd{{"w", w}};
        BOOST_TEST(cairn::save(sd, "c", to).warnings.empty());
        BOOST_TEST(!has("__0_0.distcp"));
        BOOST_TEST(support::only_number(
                       support::load_whole(cairn::file_store(), at.string()).tensors.at("w")) == 2);
    }
    /// Whether it is collected, by `cairn gc`.
    bool is_garbage(aged_store there) const {
        auto const report = cairn::collect_garbage(there);
        BOOST_TEST(report.problems == 0u);
        BOOST_TEST(has(".metadata"));
        return !has(stray);
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_removes_strays_that_have_not_changed_for_a_day) {
    for (auto const& [modified, changed] : {std::pair(25, 25), {25, 23}, {23, 25}, {0, 0}}) {
        turns t;
        t.save_over(t.store(hours(modified), hours(changed)));
        bool const old = std::min(modified, changed) > 24;
        BOOST_TEST(t.has(t.stray) != old);
        BOOST_TEST(t.count() == (old ? 2u : 3u));
        // And whatever is older than a day, but stands.
        t.save_over(t.store());
        BOOST_TEST(t.count() == 2u);
    }
}

BOOST_AUTO_TEST_CASE(strays_are_garbage_beside_what_pytorch_has_saved) {
    turns t;
    BOOST_TEST(!t.is_garbage(t.store(hours(25), hours(23))));
    BOOST_TEST(!t.is_garbage(t.store(hours(23), hours(25))));
    BOOST_TEST(t.is_garbage(t.store()));
    BOOST_TEST(t.count() == 2u);
    BOOST_TEST(support::load_whole(cairn::file_store(), t.at.string()).tensors.size() == 1u);
}

BOOST_AUTO_TEST_CASE(strays_are_files_that_nothing_names_and_that_nobody_else_calls_so) {
    auto const stays = [](auto&& prepare) {
        turns t;
        prepare(t);
        BOOST_TEST(!t.is_garbage(t.store()));
    };
    stays([](turns& t) {
        auto i = of_another_host(id_b);
        i.names = {t.stray};
        t.write(".saving." + id_b, i.encode());
    });
    stays([](turns& t) {
        auto i = of_another_host(id_b);
        i.replaced = {t.stray};
        t.write(".saving." + id_b, i.encode());
    });
    stays([](turns& t) {  // of a newer cairn: what it names is not known
        auto bytes = of_another_host(id_b).encode();
        bytes[0] = std::byte{9};
        t.write(".saving." + id_b, bytes);
    });
    stays([](turns& t) { t.write(".metadata.quarantined", "damaged"); });
    stays([](turns& t) { t.write(t.stray, cairn::format::native::encode_footer({id_b, {}})); });
    turns t;
    std::vector<std::string> const others{"results." + id_a + ".csv", "a." + id_a, id_a + ".distcp",
                                          "__7_0.distcp", "notes.txt"};
    for (auto const& name : others) t.write(name, "mine");
    BOOST_TEST(t.is_garbage(t.store()));
    for (auto const& name : others) BOOST_TEST(t.has(name), name);
}

/// What the report says is so.
BOOST_AUTO_TEST_CASE(files_of_a_replaced_checkpoint_that_cannot_be_read_are_no_strays) {
    turns t;
    t.write(".metadata", "damaged");
    std::vector<float> w(4, 2);
    cairn::state_dict sd{{"w", w}};
    auto const said = cairn::save(sd, "c", t.store()).warnings;
    BOOST_REQUIRE(said.size() == 1u);
    BOOST_TEST(said[0].find("the files of the replaced checkpoint stay") != said[0].npos);
    BOOST_TEST(t.has(t.stray));
}

/// Somebody may be copying a checkpoint, whose metadata comes last.
BOOST_AUTO_TEST_CASE(files_without_a_checkpoint_are_no_strays) {
    turns t;
    fs::remove(t.at / ".metadata");
    auto there = t.store();
    (void)cairn::collect_garbage(there);
    BOOST_TEST(t.has(t.stray));
}

BOOST_AUTO_TEST_SUITE_END()
