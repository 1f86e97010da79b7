// SPDX-License-Identifier: Apache-2.0
// Beside checkpoints there is what belongs to others, and what is elsewhere.
#include "saved.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

BOOST_AUTO_TEST_SUITE(catalog_neighbours)

using namespace catalog;

namespace {

std::string latest(const fs::path& dir, std::vector<std::string>& said) {
    cairn::latest_options options;
    options.on_skipped = [&](const std::string& s) { said.push_back(s); };
    auto const id = cairn::latest(dir.string(), options);
    return id ? fs::path(*id).filename().string() : "none";
}
std::string states(const fs::path& dir) {
    std::string s;
    for (auto const& l : cairn::list_checkpoints(dir.string()))
        s += l.id + " " + cairn::name_of(l.state) + ", ";
    return s;
}
void require(bool good, const std::string& what) {
    if (!good) throw std::runtime_error(what);
}
/// Runs `f` as somebody who may not look into directories of others.
template <class F>
void as_somebody_else(F f) {
    BOOST_TEST((support::in_process([&] {
                    if (::geteuid() == 0) {
                        require(::setegid(65534) == 0 && ::seteuid(65534) == 0,
                                "root cannot become somebody else");
                    }
                    f();
                }) == support::ended::well));
}
bool is_denied(const cairn::error& e) {
    return e.code() == make_error_code(cairn::errc::permission_denied);
}

}  // namespace

/// A save of another user's runs there, under a mask that keeps its files from others.
BOOST_AUTO_TEST_CASE(a_place_with_an_intent_of_another_users_is_named_and_skipped) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    auto const name = ".saving." + std::string(32, 'a');
    cairn::file_store(p.dir / "theirs").publish(name, {}, std::nullopt);
    support::meddling_store store(
        cairn::file_store(p.dir),
        {.before_open = support::failing(1000, name, cairn::errc::permission_denied)});
    auto const all = cairn::list_checkpoints(store);
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST((all[0].state == cairn::checkpoint_state::complete));
    BOOST_TEST(all[1].id == "theirs");
    BOOST_TEST((all[1].state == cairn::checkpoint_state::unreadable));
    auto const r = cairn::collect_garbage(store);
    BOOST_TEST(r.problems == 0u);
    BOOST_REQUIRE(r.lines.size() == 1u);
    BOOST_TEST(r.lines[0].find("'theirs' is skipped") == 0u);
}

BOOST_AUTO_TEST_CASE(a_save_that_fails_leaves_no_directory) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    support::meddling_store const store(
        cairn::file_store(p.dir),
        {.before_publish = support::failing(1, "step_2/.metadata", cairn::errc::io)});
    BOOST_CHECK_THROW(save_steps(store, {2}), cairn::error);
    BOOST_TEST((p.names() == p.names_of({1})));
}

BOOST_AUTO_TEST_CASE(a_private_directory_is_named_and_skipped) {
    place p;
    fs::permissions(p.scratch.dir, fs::perms(0755));
    fs::create_directories(p.dir / "lost+found");
    fs::permissions(p.dir / "lost+found", fs::perms(0));
    for (bool const first : {true, false}) {
        if (!first) save_steps(cairn::file_store(p.dir), {1, 2});
        as_somebody_else([&] {
            std::vector<std::string> said;
            require(latest(p.dir, said) == (first ? "none" : "step_2"), "another is the newest");
            require(said.size() == 1 && said[0].find("lost+found") != std::string::npos &&
                        said[0].find("Permission denied") != std::string::npos,
                    "it is not named once");
            require(states(p.dir) == (first ? "lost+found unreadable, "
                                            : "step_1 complete, step_2 complete, "
                                              "lost+found unreadable, "),
                    states(p.dir));
            auto const r = cairn::collect_garbage(p.dir.string(), true);
            require(r.problems == 0 && r.lines.size() == 1 &&
                        r.lines[0].find("'lost+found' is skipped") == 0,
                    "gc has problems with it");
            cairn::detail::run_catalog catalog(cairn::last(1));
            std::vector<std::string> warnings;
            for (int i = 0; i < 2; ++i) (void)catalog.next_sequence(p.store(), warnings, nullptr);
            require(warnings.size() == 1, "a save does not name it once");
        });
    }
    fs::permissions(p.dir / "lost+found", fs::perms(0755));
}

/// It may be read, but nobody may look at what is in it.
BOOST_AUTO_TEST_CASE(a_directory_that_can_only_be_searched_is_none_of_ours) {
    place p;
    fs::permissions(p.scratch.dir, fs::perms(0755));
    save_steps(cairn::file_store(p.dir), {1});
    fs::create_directories(p.dir / "private");
    fs::permissions(p.dir / "private", fs::perms(0711));
    as_somebody_else([&] {
        std::vector<std::string> said;
        require(latest(p.dir, said) == "step_1", "another is the newest");
        require(states(p.dir) == "step_1 complete, private unreadable, ", states(p.dir));
        require(cairn::collect_garbage(p.dir.string(), true).problems == 0, "gc has problems");
    });
}

BOOST_AUTO_TEST_CASE(a_private_checkpoint_stops_the_search) {
    place p;
    fs::permissions(p.scratch.dir, fs::perms(0755));
    save_steps(cairn::file_store(p.dir), {1, 2});
    for (auto const* private_one : {"step_1", "step_2", "step_2/.metadata"}) {
        fs::permissions(p.dir / private_one, fs::perms(0));
        as_somebody_else([&] {
            std::vector<std::string> said;
            try {
                (void)latest(p.dir, said);
                require(false, "an older one is the newest");
            } catch (const cairn::error& e) {
                std::string const text = e.what();
                require(is_denied(e) && text.find(private_one) != std::string::npos, text);
            }
            require(states(p.dir).find("unreadable") != std::string::npos, states(p.dir));
        });
        fs::permissions(p.dir / private_one, fs::perms(0755));
    }
}

/// Whether a checkpoint is overlooked must not depend on the storage's mood.
BOOST_AUTO_TEST_CASE(a_storage_that_fails_stops_the_search) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    fs::create_directories(p.dir / "other");
    support::meddling_store store(
        cairn::file_store(p.dir),
        {.before_open = support::failing(1000, "other/.metadata", cairn::errc::io)});
    BOOST_CHECK_EXCEPTION((void)cairn::latest(store), cairn::error, [](const auto& e) {
        return e.code() == make_error_code(cairn::errc::io);
    });
}

BOOST_AUTO_TEST_CASE(a_link_is_found_and_nothing_is_removed_there) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    auto const elsewhere = p.scratch.dir / "elsewhere";
    fs::create_directories(elsewhere);
    fs::rename(p.at(2), elsewhere / "kept");
    fs::create_directory_symlink(elsewhere / "kept", p.at(2));
    fs::create_directory_symlink("step_1", p.dir / "first");  // listed anyway
    fs::create_directory_symlink(p.at(2), p.dir / "zz");      // the same again
    fs::create_directory_symlink(p.dir / "nowhere", p.dir / "step_9");
    std::vector<std::string> said;
    BOOST_TEST(latest(p.dir, said) == "step_2");
    BOOST_TEST(said.empty());
    BOOST_TEST(states(p.dir) == "step_1 complete, step_2 complete, ");
    // Leftovers beside it, and a save whose rules keep neither.
    std::ofstream(elsewhere / "kept" / (".saving." + std::string(32, 'a'))) << "cut short";
    (void)cairn::collect_garbage(p.dir.string());
    cairn::detail::run_catalog run(cairn::every(1000));
    for (auto const& w : run.retain(p.store(), {}, nullptr)) BOOST_TEST(w == "");
    BOOST_TEST(p.stands(1));
    BOOST_TEST(p.stands(2));
    BOOST_TEST(fs::exists(elsewhere / "kept" / (".saving." + std::string(32, 'a'))));
    // Nor is it put aside.
    fs::remove(support::data_file_in(elsewhere / "kept", "__0_0"));
    cairn::latest_options options;
    options.quarantine = true;
    options.on_skipped = [&](const std::string& s) { said.push_back(s); };
    BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
    BOOST_TEST(fs::exists(elsewhere / "kept" / ".metadata"));
    BOOST_TEST(said.size() == 1u);
    BOOST_TEST(said.at(0).find("not quarantined") != std::string::npos, said.at(0));
}

BOOST_AUTO_TEST_SUITE_END()
