// SPDX-License-Identifier: Apache-2.0
// What interrupted saves have left is found, and removed only where it is certain.
#include "saved.hpp"
#include "support/aged_store.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/garbage.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <utility>

BOOST_AUTO_TEST_SUITE(catalog_garbage)

using namespace catalog;
using cairn::detail::save_intent;

namespace {

const std::string id_a(32, 'a');

/// A directory with a checkpoint, and a place where a save of this process has begun.
struct interrupted : place {
    save_intent intent{};

    interrupted() {
        save_steps(cairn::file_store(dir), {1});
        intent.save_id = id_a;
        intent.began = save_intent::now();
        intent.owner = cairn::detail::record_owner::this_one();
        intent.names = {"__0_0." + id_a + ".distcp"};
        write();
        std::ofstream(at(2) / intent.names[0]) << "1234567";
    }
    void write() const {
        cairn::file_store(at(2)).publish(".saving." + id_a, intent.encode(), std::nullopt);
    }
    bool is_left() const { return fs::exists(at(2)); }
};
bool says(const cairn::garbage_report& r, const std::string& what) {
    return std::any_of(r.lines.begin(), r.lines.end(),
                       [&](auto const& l) { return l.find(what) != l.npos; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(garbage_of_an_ended_save_is_removed) {
    interrupted p;
    auto const before = p.names();
    auto const would = cairn::collect_garbage(p.dir.string(), true);
    BOOST_TEST(would.files == 2u);
    BOOST_TEST(says(would, "would remove step_2/__0_0." + id_a + ".distcp (7 bytes)"));
    BOOST_TEST(would.directories == 1u);
    BOOST_TEST(says(would, "would remove step_2/ without files"));
    BOOST_TEST((p.names() == before));
    auto const did = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(did.files == 2u);
    BOOST_TEST(did.directories == 1u);
    BOOST_TEST(did.bytes == would.bytes);
    BOOST_TEST(did.problems == 0u);
    BOOST_TEST((p.names() == p.names_of({1})));
    BOOST_TEST(p.stands(1));
    BOOST_TEST(cairn::collect_garbage(p.dir.string()).lines.empty());
}

/// Where a save was killed before it had published its intent.
BOOST_AUTO_TEST_CASE(temporary_files_of_ended_publishers_are_garbage) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    auto stranger = cairn::detail::this_process();
    stranger.boot = "of-another-host";
    stranger.run = std::string(32, 'd');
    auto const ended = cairn::detail::temporary_name(cairn::detail::this_process()),
               alien = cairn::detail::temporary_name(stranger),
               old_alien = cairn::detail::temporary_name(stranger);
    auto const write = [](const fs::path& file) {
        fs::create_directories(file.parent_path());
        std::ofstream(file) << "1234";
    };
    for (auto const& file :
         {p.dir / ended, p.at(1) / ended, p.dir / "new" / ended, p.at(1) / alien})
        write(file);
    auto const would = cairn::collect_garbage(p.dir.string(), true);
    BOOST_TEST(would.files == 3u);
    BOOST_TEST(would.bytes == 12u);
    BOOST_TEST(would.directories == 1u);
    BOOST_TEST(says(would, "would remove step_1/" + ended + " (4 bytes)"));
    BOOST_TEST(says(would, "would remove new/ without files"));
    BOOST_TEST(fs::exists(p.dir / ended));
    write(p.at(1) / old_alien);
    fs::last_write_time(p.at(1) / old_alien,
                        fs::file_time_type::clock::now() - std::chrono::hours(25));
    auto const did = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(did.files == 4u);
    BOOST_TEST(did.directories == 1u);
    BOOST_TEST(did.problems == 0u);
    BOOST_TEST(says(did, "removed " + ended + " (4 bytes)"));
    BOOST_TEST(says(did, "removed step_1/" + old_alien));
    BOOST_TEST(!fs::exists(p.dir / ended));
    BOOST_TEST(!fs::exists(p.at(1) / ended));
    BOOST_TEST(!fs::exists(p.dir / "new"));
    BOOST_TEST(fs::exists(p.at(1) / alien), "its publisher may be at work");
    BOOST_TEST(p.stands(1));
    BOOST_TEST(cairn::collect_garbage(p.dir.string()).lines.empty());
}

/// It is told to have gone only if it has.
BOOST_AUTO_TEST_CASE(a_place_with_directories_of_somebodys_stays) {
    interrupted p;
    fs::create_directories(p.at(2) / "mine");
    for (std::size_t const files : {2u, 0u}) {
        auto const r = cairn::collect_garbage(p.dir.string());
        BOOST_TEST(r.files == files);
        BOOST_TEST(r.directories == 0u);
        BOOST_TEST(!says(r, "without files"));
        BOOST_TEST(r.problems == 0u);
    }
    BOOST_TEST(fs::exists(p.at(2) / "mine"));
}

/// A save was killed when it had made the directory of a file, and not the file.
BOOST_AUTO_TEST_CASE(garbage_goes_with_directories_of_files_that_are_not_there) {
    interrupted p;
    p.intent.names.push_back("deep/er/__0_1." + id_a + ".distcp");
    p.write();
    fs::create_directories(p.at(2) / "deep" / "er");
    BOOST_TEST(cairn::collect_garbage(p.dir.string(), true).files == 2u);
    BOOST_TEST(fs::exists(p.at(2) / "deep" / "er"));
    auto const r = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(r.files == 2u);
    BOOST_TEST(r.directories == 1u);
    BOOST_TEST(!p.is_left());
}

/// Where an export, or a file, was being made.
BOOST_AUTO_TEST_CASE(garbage_of_an_ended_export_is_removed) {
    interrupted p;
    std::string const id_b(32, 'b'), id_c(32, 'c'), id_d(32, 'd'), id_e(32, 'e');
    auto const leave = [&](const fs::path& at, save_intent i, const std::string& id) {
        fs::create_directories(at / "new" / "sub");
        for (auto const* name : {"new/model.safetensors", "new/sub/config.json", "values.1"})
            std::ofstream(at / name) << "1234567";
        i.save_id = id;
        i.names.clear();
        cairn::file_store(at).publish(".saving." + id, i.encode(), std::nullopt);
    };
    auto of_another_host = p.intent;
    of_another_host.owner.process.boot = "another";
    of_another_host.owner.process.run = id_c;
    auto const ended = p.dir / (".m.saving-" + id_b), others = p.dir / (".m.saving-" + id_c),
               below = p.at(1) / (".w.pt.saving-" + id_d),
               removed = p.dir / (".m.saving-" + id_e + ".over"),
               unborn = p.dir / (".m.saving-" + id_a);
    leave(ended, p.intent, id_b);
    leave(others, of_another_host, id_c);
    leave(below, p.intent, id_d);
    leave(removed, p.intent, id_e);
    for (auto const& at : {unborn, p.dir / ".m.saving-something", p.dir / (".saving-" + id_a)})
        fs::create_directory(at);
    fs::create_directory(unborn / "new");
    auto const before = p.names();
    auto const would = cairn::collect_garbage(p.dir.string(), true);
    BOOST_TEST((p.names() == before));
    BOOST_TEST(would.files == 2u + 3 * 4);
    BOOST_TEST(says(would, "would remove .m.saving-" + id_b + "/ (4 files, "));
    {
        cairn::detail::running_save const running(id_b), too(id_d);
        auto const r = cairn::collect_garbage(p.dir.string());
        BOOST_TEST(r.files == 2u + 4);
        BOOST_TEST(r.problems == 0u);
        BOOST_TEST(says(r, ".m.saving-" + id_b + "/: a save by process"));
        BOOST_TEST(says(r, "is running: skipped"));
        BOOST_TEST(says(r, "removed .m.saving-" + id_a + "/ without files"));
        BOOST_TEST(fs::exists(ended / "new/model.safetensors"));
        BOOST_TEST(fs::exists(below));
        BOOST_TEST(!fs::exists(removed));
        BOOST_TEST(!fs::exists(unborn));
    }
    auto const did = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(did.files == 2u * 4);
    BOOST_TEST(says(did, "removed step_1/.w.pt.saving-" + id_d + "/ (4 files, "));
    BOOST_TEST(!fs::exists(ended));
    BOOST_TEST(!fs::exists(below));
    BOOST_TEST(fs::exists(others / "new/model.safetensors"));
    for (auto const& e : fs::recursive_directory_iterator(others))
        if (e.is_regular_file())
            fs::last_write_time(e, fs::last_write_time(e) - std::chrono::hours(25));
    BOOST_TEST(cairn::collect_garbage(p.dir.string()).files == 4u);
    fs::remove(p.dir / ".m.saving-something");
    fs::remove(p.dir / (".saving-" + id_a));
    BOOST_TEST((p.names() == p.names_of({1})));
    BOOST_TEST(cairn::collect_garbage(p.dir.string()).lines.empty());
}

BOOST_AUTO_TEST_CASE(files_of_a_running_save_stay) {
    interrupted p;
    cairn::detail::running_save const running(id_a);
    auto const r = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(r.files == 0u);
    BOOST_TEST(says(r, "is running: skipped"));
    BOOST_TEST(p.is_left());
}

BOOST_AUTO_TEST_CASE(garbage_of_another_host_stays_for_a_day) {
    interrupted p;
    p.intent.owner.process.boot = "another";
    p.intent.owner.process.run = std::string(32, 'c');
    p.intent.began = 1;  // by a clock that does not matter
    p.write();
    auto const before = p.names();
    auto const r = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(says(r, "changed for 24 hours"));
    BOOST_TEST(r.files == 0u);
    BOOST_TEST((p.names() == before));
    for (auto const& file : fs::directory_iterator(p.at(2)))
        fs::last_write_time(file.path(), fs::last_write_time(file.path()) - std::chrono::hours(25));
    BOOST_TEST(cairn::collect_garbage(p.dir.string()).files == 2u);
    BOOST_TEST(!p.is_left());
}

BOOST_AUTO_TEST_CASE(garbage_beside_metadata_that_cannot_be_read_stays) {
    interrupted p;
    std::ofstream(p.at(2) / ".metadata") << "damaged";
    auto const r = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(r.problems == 1u);
    BOOST_TEST(says(r, "'step_2' is left as it is"));
    BOOST_TEST(fs::exists(p.at(2) / p.intent.names[0]));
}

/// Where a network file system has lost a file's content.
BOOST_AUTO_TEST_CASE(garbage_of_unknown_size_is_removed_too) {
    interrupted p;
    support::meddling_store store(
        cairn::file_store(p.dir),
        {.before_open = support::failing(1000, p.intent.names[0], cairn::errc::io)});
    auto const r = cairn::collect_garbage(store);
    BOOST_TEST(says(r, "an unknown number of bytes"));
    BOOST_TEST(says(r, "removed by its name alone"));
    BOOST_TEST(r.problems == 1u);
    BOOST_TEST(!p.is_left());
}

/// Names and errors may hold what a terminal would obey.
BOOST_AUTO_TEST_CASE(garbage_is_told_in_harmless_characters) {
    interrupted p;
    p.intent.names.push_back("file\x1b[2J");
    p.write();
    std::ofstream(p.at(2) / p.intent.names[1]) << "not a data file";
    auto const r = cairn::collect_garbage(p.dir.string());
    BOOST_TEST(r.problems == 1u);
    for (auto const& l : r.lines) BOOST_TEST(l.find('\x1b') == l.npos);
}

/// PyTorch has saved over a checkpoint, and cairn over that: nothing names the first one's files.
BOOST_AUTO_TEST_CASE(strays_go_with_a_checkpoint_that_is_removed_or_a_day_later) {
    for (bool const old : {true, false}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        auto const stray = p.at(1) / ("__0_0." + id_a + ".distcp");
        std::ofstream(stray) << "x";
        auto const aged = [&](std::chrono::hours by) {
            return support::aged_store(cairn::file_store(p.dir), by, by);
        };
        auto now = aged(std::chrono::hours(old ? 25 : 23));
        auto later = aged(std::chrono::hours(25));
        cairn::detail::run_memory run;
        cairn::any_store const root(now);
        BOOST_TEST(cairn::detail::retain(root, cairn::last(1), run, {}).empty());
        BOOST_TEST(!fs::exists(p.at(1) / ".metadata"));
        BOOST_TEST(fs::exists(stray) != old);
        BOOST_TEST(cairn::collect_garbage(now).files == 0u);
        if (!old) BOOST_TEST(cairn::collect_garbage(later).files == 2u, "with the intent");
        BOOST_TEST(!fs::exists(p.at(1)));
        BOOST_TEST(p.stands(2));
    }
}

BOOST_AUTO_TEST_CASE(the_notice_of_a_reader_on_another_host_goes_after_a_day) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    cairn::detail::read_notice n{1, cairn::detail::record_owner::this_one()};
    n.owner.process.boot = "another";
    n.owner.process.run = id_a;
    auto const name = ".reading." + id_a;
    cairn::file_store(p.at(1)).publish(name, n.encode(), std::nullopt);
    (void)cairn::collect_garbage(p.dir.string());
    BOOST_TEST(fs::exists(p.at(1) / name));
    fs::last_write_time(p.at(1) / name,
                        fs::last_write_time(p.at(1) / name) - std::chrono::hours(25));
    (void)cairn::collect_garbage(p.dir.string());
    BOOST_TEST((p.names() == p.names_of({1})));
}

BOOST_AUTO_TEST_CASE(an_intent_cannot_remove_what_a_checkpoint_needs) {
    interrupted p;
    p.intent.names = {p.data(1)};
    cairn::file_store(p.at(1)).publish(".saving." + id_a, p.intent.encode(), std::nullopt);
    (void)cairn::collect_garbage(p.dir.string());
    BOOST_TEST(p.stands(1));
    BOOST_TEST(!fs::exists(p.at(1) / (".saving." + id_a)));
}

BOOST_AUTO_TEST_SUITE_END()
