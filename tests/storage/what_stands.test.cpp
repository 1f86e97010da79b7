// SPDX-License-Identifier: Apache-2.0
// While one save ends, another may commit, or take the place over: what stands is looked at again
// before anything is removed.
#include "interrupted.hpp"
#include "support/meddling_store.hpp"
#include "support/whole.hpp"

#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/running_saves.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <string>

BOOST_AUTO_TEST_SUITE(what_stands)

using namespace interrupted;

namespace {

float stands(const place& p) {
    return support::only_number(
        support::load_whole(cairn::file_store(), p.at.string()).tensors.at("w"));
}

}  // namespace

/// Another save has committed after this one, and was killed before it swept: its intent lists the
/// files that it has committed.
BOOST_AUTO_TEST_CASE(what_another_save_has_committed_meanwhile_stays) {
    place p;
    cairn::file_store store(p.at);
    cairn::detail::leftovers<cairn::file_store> mine(store, {"__0_0.distcp"}, nullptr);
    auto other = intent_of(p.save(2).save_id);
    BOOST_TEST(p.has(other.names[0]));
    store.publish(".saving." + other.save_id, other.encode(), std::nullopt);
    mine.collect(".saving." + id_b, {});
    BOOST_TEST(!p.has(".saving." + other.save_id));
    BOOST_TEST(stands(p) == 2.0f);
}

BOOST_AUTO_TEST_CASE(everything_beside_metadata_that_cannot_be_read_stays) {
    place p;
    auto const dead = intent_of(id_a);
    p.write(".saving." + id_a, dead.encode());
    p.write(dead.names[0], "left");
    p.write(".metadata", "damaged");
    cairn::file_store store(p.at);
    cairn::detail::leftovers<cairn::file_store> l(store, {}, nullptr);
    l.collect({}, {});
    BOOST_TEST((p.has(dead.names[0]) && p.has(".saving." + id_a)));
    BOOST_TEST(l.take_warnings().size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_adopted_intent_is_not_swept_by_its_first_owner) {
    place p;
    cairn::file_store store(p.at);
    cairn::detail::claim<cairn::file_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    auto const intent = ".saving." + id_a;
    auto found = cairn::detail::read_intent(store, cairn::object_info{intent, 0});
    BOOST_TEST(cairn::detail::adopt(store, *found));
    (void)mine.sweep(store, {}, nullptr);
    BOOST_TEST(p.has(intent));
    BOOST_TEST(stands(p) == 1.0f);
}

BOOST_AUTO_TEST_CASE(a_name_may_have_two_dots) {
    cairn::memory_store store;
    store.publish("a..b", {}, std::nullopt);
    BOOST_TEST(cairn::detail::open_data_file(store, "a..b").size() == 0u);
    for (auto const* name : {"../b", "/b", "", "a/../b"})
        BOOST_CHECK_EXCEPTION(
            (void)cairn::detail::open_data_file(store, name), cairn::error,
            [](const auto& e) { return e.code() == cairn::make_error_code(cairn::errc::corrupt); });
}

BOOST_AUTO_TEST_CASE(an_id_is_found_in_a_name) {
    using cairn::detail::data_name;
    using cairn::detail::id_in;
    for (auto const& name : {"__0_0." + id_a + ".distcp", "d/a.b." + id_a + ".distcp",
                             data_name("__0_0.distcp", id_a), data_name("d.e/a", id_a)})
        BOOST_TEST(id_in(name) == id_a);
    BOOST_TEST(data_name("a.distcp", id_a) == data_name("a", id_a));
    for (auto const& name :
         {std::string(), std::string("a.b.c"), "." + id_a, "a." + id_a, "a." + id_a + ".b",
          "a." + id_a + "0.distcp", id_a, id_a + ".distcp", "." + id_a + ".distcp",
          "d/." + id_a + ".distcp", "a/" + id_a + ".distcp", "a." + id_a + ".distcp/b"})
        BOOST_TEST(id_in(name) == "");
}

BOOST_AUTO_TEST_CASE(an_intent_lists_no_empty_names) {
    auto i = intent_of(id_a);
    i.names = {"", "a", ""};
    i.replaced = {""};
    auto const j = save_intent::decode(i.encode());
    BOOST_TEST((j.names == std::vector<std::string>{"a"}));
    BOOST_TEST(j.replaced.empty());
}

/// On a network file system, for a moment. The intent protects the files of a running save.
BOOST_AUTO_TEST_CASE(an_intent_that_seemed_absent_is_looked_for_again) {
    place p;
    p.write(".saving." + id_a, intent_of(id_a).encode());
    support::meddling_store store(
        cairn::file_store(p.at),
        {.before_open = support::failing(1, ".saving." + id_a, cairn::errc::not_found)});
    BOOST_TEST(
        cairn::detail::read_intent(store, cairn::object_info{".saving." + id_a, 0}).has_value());
    BOOST_TEST(
        !cairn::detail::read_intent(store, cairn::object_info{".saving." + id_b, 0}).has_value());
    // Neither there nor not there.
    int opened = 0;
    support::meddling_store strange(
        cairn::file_store(p.at), {.before_open = [&](const std::string& path) {
            if (opened++ % 2 == 0) throw cairn::error(cairn::errc::not_found, {.file = path});
        }});
    BOOST_CHECK_EXCEPTION(
        (void)cairn::detail::read_intent(strange, cairn::object_info{".saving." + id_a, 0}),
        cairn::error,
        [](const auto& e) { return e.code() == cairn::make_error_code(cairn::errc::io); });
}

/// In a container whose `/proc` is the host's, a number there is another process's.
BOOST_AUTO_TEST_CASE(processes_are_looked_for_only_where_their_numbers_mean_the_same) {
    support::scratch dir;
    auto const self = (dir.dir / "self").string();
    BOOST_TEST(cairn::detail::is_of_this_pid_space());
    BOOST_TEST(!cairn::detail::is_of_this_pid_space(self.c_str()));
    fs::create_symlink(std::to_string(::getpid() + 1), self);
    BOOST_TEST(!cairn::detail::is_of_this_pid_space(self.c_str()));
    fs::remove(self);
    fs::create_symlink(std::to_string(::getpid()), self);
    BOOST_TEST(cairn::detail::is_of_this_pid_space(self.c_str()));
}

BOOST_AUTO_TEST_SUITE_END()
