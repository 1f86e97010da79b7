// SPDX-License-Identifier: Apache-2.0
// What broken saves left is collected by the next one, once it is certain that they are over, and
// never before.
#include "interrupted.hpp"
#include "support/dying_store.hpp"
#include "support/whole.hpp"

#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(leftovers)

using namespace interrupted;

BOOST_AUTO_TEST_CASE(leftovers_of_the_save_that_is_replaced_are_collected_at_once) {
    // It was published, and its process killed before it swept: on another host, just now.
    place p;
    auto i = intent_of(p.standing_id);
    i.owner.process.boot = "another host";
    i.owner.process.run = id_b;
    i.names = {"__0_0.distcp", "__1_0.distcp"};
    i.replaced_id = id_a;
    i.replaced = {"__0_0." + id_a + ".distcp", "__1_0." + id_a + ".distcp"};
    p.write(".saving." + p.standing_id, i.encode());
    for (auto const& n : i.replaced) p.write(n, "replaced");
    p.save_well(2);
    BOOST_TEST(p.count() == 2u);
}

BOOST_AUTO_TEST_CASE(what_a_dead_save_was_to_replace_goes_too) {
    // B was to replace A, and did; then C replaced B and was killed too. All that is left of A, B
    // and C goes with the next save.
    place p;
    auto b = intent_of(id_b);
    b.replaced_id = id_a;
    b.replaced = {"__0_0." + id_a + ".distcp"};
    p.write(".saving." + id_b, b.encode());
    p.write(b.names[0], "B");
    p.write(b.replaced[0], "A");
    p.save_well(2);
    BOOST_TEST(p.count() == 2u);
}

BOOST_AUTO_TEST_CASE(files_that_may_still_be_needed_stay) {
    // Two intents list one file: one of a save that runs, one of a dead one.
    place p;
    auto const shared = std::string("__9_0.distcp");
    auto alive = intent_of(id_a), dead = intent_of(id_b);
    alive.owner = of_another_host(id_a).owner;
    alive.names = {shared};
    dead.names = {shared};
    p.write(".saving." + id_a, alive.encode());
    p.write(".saving." + id_b, dead.encode());
    p.write(shared, "no footer yet");
    p.save(2);
    BOOST_TEST(p.has(shared));
    BOOST_TEST(p.has(".saving." + id_b), "what it lists is not known to be gone");
    // With a footer it is known whose it is, and that the dead one left nothing.
    auto bytes = cairn::format::native::encode_footer({id_a, {}});
    bytes.insert(bytes.begin(), 100, std::byte{1});
    p.write(shared, bytes);
    alive.names.clear();
    p.write(".saving." + id_a, alive.encode());
    p.save_well(3);
    BOOST_TEST(p.has(shared));
    BOOST_TEST(!p.has(".saving." + id_b));
}

BOOST_AUTO_TEST_CASE(files_that_standing_metadata_names_stay) {
    cairn::memory_store store;
    std::set<std::string> const standing{"__0_0.distcp"};
    store.publish("__0_0.distcp", {}, std::nullopt);
    cairn::detail::leftovers<cairn::memory_store> l(store, standing, nullptr);
    BOOST_TEST(l.remove_planned({"__0_0.distcp"}, id_a));
    BOOST_TEST(l.remove_replaced({"__0_0.distcp"}, {}));
    BOOST_TEST(store.list().size() == 1u);
}

/// Otherwise its intent would be forgotten, and the file would stay.
BOOST_AUTO_TEST_CASE(a_file_that_seemed_absent_is_looked_for_again) {
    struct forgetful : cairn::file_store {
        using cairn::file_store::file_store;
        int times = 1;
        reader open(std::string_view name) {
            if (times-- > 0)
                throw cairn::error(cairn::errc::not_found, {.file = std::string(name)});
            return cairn::file_store::open(name);
        }
    };
    place p;
    p.write("__9_0.distcp", "PyTorch's");
    forgetful store(p.at);
    std::set<std::string> const standing;
    cairn::detail::leftovers<forgetful> l(store, standing, nullptr);
    BOOST_TEST(!l.remove_replaced({"__9_0.distcp"}, {}));
    BOOST_TEST(p.has("__9_0.distcp"));
    BOOST_TEST(l.remove_replaced({"__9_0.distcp"}, {}));
    BOOST_TEST(!p.has("__9_0.distcp"));
}

BOOST_AUTO_TEST_CASE(what_is_no_intent_goes_with_what_is_its_own) {
    auto const data = "__0_0." + id_a + ".distcp";
    auto const intent = ".saving." + id_a;
    auto bytes = intent_of(id_a).encode();
    // Cut short by a crash, or damaged: it goes, with what can be told to be its own.
    for (std::size_t n : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
        place p;
        p.write(intent, std::span(bytes).first(n));
        p.write(data, "left");
        // Names with a hash of 32 digits are not cairn's.
        std::vector<std::string> const not_its{"__1_0.distcp", "results." + id_a + ".csv",
                                               "results." + id_a, id_a + ".distcp",
                                               "a." + id_a + ".distcp.bak"};
        for (auto const& name : not_its) p.write(name, "not his");
        p.write("b." + id_a + ".distcp", cairn::format::native::encode_footer({id_b, {}}));
        p.save_well(2);
        BOOST_TEST(!p.has(intent));
        BOOST_TEST(!p.has(data));
        for (auto const& name : not_its) BOOST_TEST(p.has(name), name);
        BOOST_TEST(p.has("b." + id_a + ".distcp"), "its footer names another save");
    }
    {
        place p;
        auto flipped = bytes;
        flipped[40] ^= std::byte{1};
        p.write(intent, flipped);
        p.save_well(2);
        BOOST_TEST(!p.has(intent));
    }
    {  // of an earlier version: nothing in it counts
        place p;
        auto i = intent_of(id_a);
        i.names = {"__1_0.distcp"};
        auto earlier = i.encode();
        earlier[0] = std::byte{2};
        cairn::detail::wire_writer crc;
        crc.u32(cairn::format::crc32(std::span(earlier).first(earlier.size() - 4)));
        std::ranges::copy(crc.written(), earlier.end() - 4);
        p.write(intent, earlier);
        p.write(data, "left");
        p.write("__1_0.distcp", "not his");
        p.save_well(2);
        BOOST_TEST(!p.has(intent));
        BOOST_TEST(!p.has(data));
        BOOST_TEST(p.has("__1_0.distcp"));
    }
    {  // under the name of another save
        place p;
        p.write(".saving." + id_b, bytes);
        p.write(data, "left");
        p.save(2);
        BOOST_TEST(!p.has(".saving." + id_b));
        BOOST_TEST(p.has(data));
    }
    {  // of a newer cairn, and what only looks like one
        place p;
        bytes[0] = std::byte{4};
        p.write(intent, bytes);
        p.write(data, "left");
        p.write(".saving.notes", "mine");
        p.write(".saving." + id_a + "0", "mine");
        p.save_well(2);
        BOOST_TEST(p.count() == 6u);
    }
}

BOOST_AUTO_TEST_CASE(an_intent_keeps_what_it_says) {
    auto i = intent_of(id_a);
    i.names = {"a", "b/c"};
    i.replaced_id = id_b;
    i.replaced = {"d"};
    auto const j = save_intent::decode(i.encode());
    BOOST_TEST(j.save_id == i.save_id);
    BOOST_TEST(j.began == i.began);
    BOOST_TEST((j.owner == i.owner));
    BOOST_TEST(j.names == i.names);
    BOOST_TEST(j.replaced_id == i.replaced_id);
    BOOST_TEST(j.replaced == i.replaced);
    BOOST_TEST(cairn::detail::is_this_process(j.owner.process));
    BOOST_TEST(!cairn::detail::has_ended(j.owner.process));
    BOOST_TEST(j.owner.process.started > 0u);
    BOOST_TEST(!j.owner.process.boot.empty());
    BOOST_TEST(!j.owner.host.empty());
}

/// Calls, in order, of a store whose place is a folder.
struct noting_store : cairn::file_store {
    explicit noting_store(const fs::path& at) : cairn::file_store(at) {}
    std::vector<std::string> calls{};
    void remove(std::string_view name) {
        calls.push_back("remove " + std::string(name));
        cairn::file_store::remove(name);
    }
    void sync() {
        calls.push_back("sync");
        cairn::file_store::sync();
    }
};

/// With the checkpoint that stands, and the one that is being written, they would take the space of
/// a third.
BOOST_AUTO_TEST_CASE(leftovers_are_collected_before_anything_is_written) {
    place p;
    noting_store store(p.at);
    // The save that published what stands was killed before it swept, and so was the one after it
    // before it published.
    auto standing = intent_of(p.standing_id);
    standing.names = {"__0_0." + p.standing_id + ".distcp"};
    standing.replaced_id = id_b;
    standing.replaced = {"__0_0." + id_b + ".distcp"};
    auto const dead = intent_of(id_a);
    p.write(".saving." + p.standing_id, standing.encode());
    p.write(standing.replaced[0], "replaced");
    p.write(".saving." + id_a, dead.encode());
    p.write(dead.names[0], "never published");
    // One of another host may still publish, however old it is.
    std::string const id_d(32, 'd');
    auto const elsewhere = of_another_host(id_d);
    p.write(".saving." + id_d, elsewhere.encode());
    p.age(".saving." + id_d, hours(1000));
    p.write(elsewhere.names[0], "being written");
    cairn::detail::claim<noting_store> mine;
    std::string const id(32, 'c');
    mine.take(store, id, {"__0_0." + id + ".distcp", "__1_0." + id + ".distcp"}, true);
    BOOST_TEST(p.count() == 5u);
    for (auto const& there : {std::string(".metadata"), "__0_0." + p.standing_id + ".distcp",
                              ".saving." + id, ".saving." + id_d, elsewhere.names[0]})
        BOOST_TEST(p.has(there), there);
    // What was replaced goes only once what replaced it is durable.
    BOOST_REQUIRE(!store.calls.empty());
    BOOST_TEST(store.calls[0] == "sync");
    mine.release(store);
    p.save_well(2);
}

/// Version b1c5de8 put the id of a save over a checkpoint before the last dot of any name, and
/// ranks without items have empty files.
BOOST_AUTO_TEST_CASE(empty_files_that_an_earlier_version_named_go) {
    place p;
    auto i = intent_of(id_a);
    i.names = {"part_1_0." + id_a + ".bin", "deep/part." + id_a};
    std::vector<std::string> const not_its{"notes_0." + id_a + ".bin", "part." + id_b + ".bin"};
    i.names.insert(i.names.end(), not_its.begin(), not_its.end());
    fs::create_directory(p.at / "deep");
    for (auto const& name : i.names) p.write(name, "");
    p.write(not_its[0], "mine");
    p.write(".saving." + id_a, i.encode());
    p.save(2);
    BOOST_TEST(!p.has(i.names[0]));
    BOOST_TEST(!p.has("deep"));
    for (auto const& name : not_its) BOOST_TEST(p.has(name), name);
}

namespace {

/// A disk that is full as long as a file is there.
struct full_disk : cairn::file_store {
    full_disk(const fs::path& at, std::string by)
        : cairn::file_store(at), filled_by(std::move(by)) {}
    void publish(std::string_view name, cairn::byte_span b,
                 std::optional<cairn::object_tag> match) {
        if (fs::exists(fs::path(directory()) / filled_by))
            throw cairn::error(cairn::errc::io,
                               {.file = std::string(name), .found = "No space left on device"});
        cairn::file_store::publish(name, b, std::move(match));
    }
    std::string filled_by;
};

}  // namespace

/// Adopting an intent needs space.
BOOST_AUTO_TEST_CASE(leftovers_that_fill_the_disk_go_although_nothing_can_be_written) {
    std::vector<float> w(4, 2);
    cairn::state_dict sd{{"w", w}};
    auto const dead = intent_of(id_a);
    {
        place p;
        p.write(".saving." + id_a, dead.encode());
        p.write(dead.names[0], "all that was free");
        auto const said = cairn::save(sd, "", full_disk(p.at, dead.names[0])).warnings;
        BOOST_TEST(said.size() == 1u);
        BOOST_TEST(p.count() == 2u, "the intent goes with the next look");
    }
    {  // whose owner may still be alive
        place p;
        auto alive = of_another_host(id_a);
        p.write(".saving." + id_a, alive.encode());
        p.write(alive.names[0], "all that was free");
        for (auto const& name : {".saving." + id_a, alive.names[0]}) p.age(name, hours(25));
        BOOST_CHECK_THROW(cairn::save(sd, "", full_disk(p.at, alive.names[0])), cairn::error);
        BOOST_TEST((p.has(alive.names[0]) && p.has(".saving." + id_a)));
    }
}

/// While a save runs, another in the same place may commit, and must not touch the first one's
/// files; the first one then finds that it is too late.
BOOST_AUTO_TEST_CASE(files_of_a_save_that_runs_are_not_touched) {
    place p;
    cairn::file_store store(p.at);
    cairn::detail::claim<cairn::file_store> mine;
    cairn::detail::running_save const running(id_a);
    auto const name = "__0_0." + id_a + ".distcp";
    mine.take(store, id_a, {name}, true);
    p.write(name, "being written");
    p.save(2);
    BOOST_TEST(p.has(name));
    BOOST_CHECK_EXCEPTION(mine.publish(store, {}), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::concurrent_save);
    });
}

/// Whose intent another save has removed, because it took it for dead, does not commit any more.
BOOST_AUTO_TEST_CASE(a_save_without_its_intent_does_not_commit) {
    place p;
    cairn::file_store store(p.at);
    cairn::detail::claim<cairn::file_store> mine;
    mine.take(store, id_a, {"__0_0.distcp"}, true);
    store.remove(".saving." + id_a);
    BOOST_CHECK_EXCEPTION(mine.publish(store, {}), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::concurrent_save) &&
               std::string(e.what()).find("presumed this one dead") != std::string::npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
