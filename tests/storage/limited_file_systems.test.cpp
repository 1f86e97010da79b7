// SPDX-License-Identifier: Apache-2.0
// File systems that cannot lock, sync, or read a directory.
#include "recorded_calls.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/comm/detail/tcp/rendezvous_file.hpp>
#include <cairn/comm/unique_id.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/detail/write_back.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/detail/save_intent.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(limited_file_systems)

namespace fs = std::filesystem;

namespace {

using support::first;
using support::is;
using support::none;
using support::watching;

cairn::save_report save_to(const std::string& id, const cairn::save_options& o = {},
                           cairn::file_store store = cairn::file_store()) {
    std::vector<float> w(64, 1.0f);
    return cairn::save(cairn::state_dict{{"w", w}}, id, o, std::move(store));
}
bool is_there(const std::string& id) {
    auto const w = support::load_whole(cairn::file_store(), id);
    return support::only_number(w.tensors.at("w")) == 1.0f;
}
auto warns_of(const std::string& what) {
    return [what](const std::string& w) { return w.find(what) != std::string::npos; };
}
bool syncs(std::string_view what) {
    return what == "fsync" || what == "fdatasync" || what == "syncfs" || what == "start";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_system_without_locks_is_saved_to_with_a_warning) {
    constexpr int of_the_kernel = 524;
    for (int const e : {EBADF, ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, EPERM, of_the_kernel}) {
        support::scratch dir;
        auto const id = (dir.dir / "c").string();
        watching const w(dir.dir.string());
        w.s.before = [e](std::string_view what, const std::string&, std::uint64_t) {
            return what == "lock" ? e : 0;
        };
        auto const report = save_to(id);
        BOOST_TEST(std::count_if(report.warnings.begin(), report.warnings.end(),
                                 warns_of("cannot be locked")) == 1);
        BOOST_TEST(is_there(id));
    }
    support::scratch dir;
    BOOST_TEST(save_to((dir.dir / "c").string()).warnings.empty());
}

/// By the writer's option, or by the store's.
BOOST_AUTO_TEST_CASE(a_save_that_syncs_nothing_calls_nothing_that_does) {
    for (bool const by_store : {false, true}) {
        support::scratch dir;
        auto const id = (dir.dir / "runs" / "c").string();
        cairn::save_options o;
        o.storage.sync_files = by_store;
        o.storage.file_name = [](int rank, int n) {
            return "deep/" + std::to_string(rank) + "-" + std::to_string(n) + ".bin";
        };
        watching const w(dir.dir.string());
        int asked = 0;
        w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
            asked += syncs(what);
            return syncs(what) ? EINVAL : 0;
        };
        for (int k = 0; k < 2; ++k)  // into an empty place, and over a checkpoint
            (void)save_to(id, o, cairn::file_store({}, {.sync_files = !by_store}));
        BOOST_TEST(asked == 0);
        BOOST_TEST(is_there(id));
    }
}

BOOST_AUTO_TEST_CASE(an_error_of_a_sync_that_does_not_exist_names_the_option) {
    auto const names_it = [](const cairn::error& x) {
        BOOST_TEST_INFO(x.what());
        return std::string(x.what()).find("sync_files = false") != std::string::npos;
    };
    for (int const e : {EINVAL, ENOSYS, EOPNOTSUPP}) {
        support::scratch dir;
        watching const w(dir.dir.string());
        w.s.before = [e](std::string_view what, const std::string& path, std::uint64_t) {
            return syncs(what) && fs::is_regular_file(path) ? e : 0;
        };
        BOOST_CHECK_EXCEPTION(save_to((dir.dir / "c").string()), cairn::error, names_it);
        // A file that is large enough to be synced while it is written.
        cairn::file_store buffered(dir.dir, {.direct_writes = false});
        auto large = buffered.create("large", cairn::detail::write_back::stretch + 1);
        large.write(0, cairn::byte_vector(cairn::detail::write_back::stretch));
        BOOST_CHECK_EXCEPTION(large.finish(true), cairn::error, names_it);
    }
}

/// What a save without syncing has left, `cairn gc` finds, and `latest` puts aside; a reader's
/// notice need not survive a crash.
BOOST_AUTO_TEST_CASE(garbage_goes_and_loads_are_announced_where_nothing_can_be_synced) {
    support::scratch dir;
    auto const root = dir.dir / "runs";
    cairn::file_store unsynced(root, {.sync_files = false});
    auto const id = std::string(32, 'a');
    {
        std::vector<float> v(64, 1.0f);
        for (auto const* step : {"step_1", "step_2"})
            (void)cairn::save(cairn::state_dict{{"w", v}}, step, unsynced);
        fs::resize_file(root / "step_2" / ".metadata", 10);
        cairn::detail::save_intent i;
        i.save_id = id;
        i.owner = cairn::detail::record_owner::this_one();
        i.names = {"__0_0." + id + ".distcp"};
        auto place = unsynced.at("step_1");
        place.publish(".saving." + id, i.encode(), std::nullopt);
        place.create(i.names[0], 10).finish(false);
    }
    watching const w(dir.dir.string());
    w.s.before = [](std::string_view what, const std::string&, std::uint64_t) {
        return syncs(what) ? EINVAL : 0;
    };
    auto const r = cairn::collect_garbage(root.string());
    BOOST_TEST(r.files == 2u);
    for (auto const& l : r.lines) BOOST_TEST(l.find("stays") == l.npos, l);
    cairn::latest_options o;
    o.quarantine = true;
    BOOST_TEST(cairn::latest(root.string(), o).value() == (root / "step_1").string());
    BOOST_TEST(fs::exists(root / "step_2" / ".metadata.quarantined"));
    std::vector<float> v(64);
    cairn::load_options announced;
    announced.storage.announce = true;
    cairn::state_dict into{{"w", v}};
    (void)cairn::load(into, (root / "step_1").string(), announced);
    BOOST_TEST(v[0] == 1.0f);
}

/// What a save that was killed in its commit has left.
BOOST_AUTO_TEST_CASE(garbage_goes_with_temporary_files_from_a_full_disk) {
    support::scratch dir;
    auto const root = dir.dir / "runs", place = root / "step_1";
    (void)save_to(place.string());
    auto other = cairn::detail::this_process();
    other.run = std::string(32, 'c');  // another program, which has executed this one
    auto const left = place / cairn::detail::temporary_name(other);
    std::ofstream(left) << "x";
    cairn::detail::save_intent i;
    i.save_id = std::string(32, 'a');
    i.owner = cairn::detail::record_owner::this_one();
    i.names = {"__0_0." + i.save_id + ".distcp"};
    cairn::file_store store(place);
    store.publish(".saving." + i.save_id, i.encode(), std::nullopt);
    store.create(i.names[0], 10).finish(false);
    std::ofstream(left) << "x";  // the publication has removed it
    other.boot = "of-another-host";
    auto const alien = place / cairn::detail::temporary_name(other);
    std::ofstream(alien) << "x";
    watching const w(dir.dir.string());
    w.s.before = [](std::string_view what, const std::string&, std::uint64_t) {
        return what == "create" || what == "write" ? ENOSPC : 0;
    };
    auto const r = cairn::collect_garbage(root.string());
    BOOST_TEST(!fs::exists(left));
    BOOST_TEST(!fs::exists(place / i.names[0]));
    BOOST_TEST(fs::exists(alien));
    BOOST_TEST(is_there(place.string()));
    auto const says = [&](const std::string& what) {
        return std::any_of(r.lines.begin(), r.lines.end(),
                           [&](const std::string& l) { return l.find(what) != l.npos; });
    };
    BOOST_TEST(says("removed step_1/" + left.filename().string()));
    BOOST_TEST(says("step_1/temporary files that may be in use stay: "));
}

/// Others wait for it for a minute, and a sync may take longer.
BOOST_AUTO_TEST_CASE(a_directory_is_not_locked_while_a_file_is_synced) {
    support::scratch dir;
    watching const w(dir.dir.string());
    std::string calls;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        if (what == "lock" || what == "rename" || (what == "fsync" && !fs::is_directory(path)))
            calls += std::string(what) + " ";
        return 0;
    };
    cairn::file_store(dir.dir).publish("m", cairn::byte_vector(3), std::nullopt);
    BOOST_TEST(calls == "fsync lock rename lock ");
}

/// Over a network, a failure need not be the end of a rename.
BOOST_AUTO_TEST_CASE(a_rename_that_may_still_happen_has_an_unknown_outcome) {
    for (bool const source_goes : {true, false}) {
        support::scratch dir;
        cairn::file_store store(dir.dir);
        store.publish("m", cairn::byte_vector(3), std::nullopt);
        watching const w(dir.dir.string());
        w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
            return what == "rename" || (what == "remove" && !source_goes) ? EIO : 0;
        };
        BOOST_CHECK_EXCEPTION(
            store.publish("m", cairn::byte_vector(4), store.tag("m")), cairn::error,
            [&](const cairn::error& e) {
                return e.code() == make_error_code(source_goes ? cairn::errc::io
                                                               : cairn::errc::outcome_unknown);
            });
        BOOST_TEST(store.open("m").size() == 3u);
    }
}

/// The rename was carried out, its answer was lost, and then the directory could not be looked at.
BOOST_AUTO_TEST_CASE(a_rename_is_not_repeated_because_its_directory_cannot_be_looked_at) {
    support::scratch dir;
    auto const place = dir.dir / "c";
    cairn::file_store store(place);
    store.publish("m", cairn::byte_vector(3), std::nullopt);
    watching const w(dir.dir.string());
    bool renamed = false;
    w.s.afterwards = [&](std::string_view what, const std::string&) {
        return what == "rename" && !std::exchange(renamed, true) ? EIO : 0;
    };
    w.s.before = [&, looked = false](std::string_view what, const std::string& path,
                                     std::uint64_t) mutable {
        bool const fails = renamed && what == "look" && path == place.string();
        return fails && !std::exchange(looked, true) ? EIO : 0;
    };
    BOOST_CHECK_EXCEPTION(store.publish("m", cairn::byte_vector(4), store.tag("m")), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::outcome_unknown);
                          });
    w.s.afterwards = nullptr;
    BOOST_TEST(store.open("m").size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_directory_that_cannot_be_synced_is_no_error) {
    for (int const e : {EINVAL, ENOSYS, EOPNOTSUPP}) {
        support::scratch dir;
        auto const id = (dir.dir / "c").string();
        watching const w(dir.dir.string());
        w.s.before = [e](std::string_view what, const std::string& path, std::uint64_t) {
            return what == "fsync" && fs::is_directory(path) ? e : 0;
        };
        BOOST_TEST(save_to(id).warnings.empty());
        BOOST_TEST(is_there(id));
    }
}

/// As a place of checkpoints often is, where ranks meet, too.
BOOST_AUTO_TEST_CASE(ranks_meet_where_nothing_can_be_synced) {
    for (int const e : {EINVAL, ENOSYS, EOPNOTSUPP, EIO}) {
        support::scratch dir;
        watching const w(dir.dir.string());
        w.s.before = [e](std::string_view what, const std::string&, std::uint64_t) {
            return what == "fsync" ? e : 0;
        };
        cairn::detail::rendezvous_file published(dir.dir.string(), "run", 0);
        auto const write = [&] { published.write({{{"127.0.0.1", 1}}, {}}); };
        if (e == EIO)
            BOOST_CHECK_THROW(write(), cairn::error);
        else
            write();
        BOOST_TEST(fs::exists(dir.dir / "cairn-run.group") == (e != EIO));
    }
}

/// As NFS does, until the directory is opened or, after up to a minute, its attributes expire.
BOOST_AUTO_TEST_CASE(ranks_meet_where_a_file_stays_absent_for_those_that_looked_early) {
    using clock = std::chrono::steady_clock;
    support::scratch dir;
    auto const d = dir.dir.string(), file = d + "/cairn-run.group";
    cairn::detail::rendezvous_file zero(d, "run", 0), one(d, "run", 1);
    watching const w(d);
    bool absent = false;
    int opened = 0;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        if (what == "open" && path == d) {
            absent = false;
            ++opened;
        }
        if (what != "open" || path != file) return 0;
        absent = absent || !fs::exists(file);
        return absent ? ENOENT : 0;
    };
    auto const begun = clock::now();
    for (int i = 0; i < 3; ++i) BOOST_TEST(!one.read().has_value());
    cairn::tcp_id const id{{{"127.0.0.1", 1}}, {}};
    zero.write(id);
    std::optional<cairn::tcp_id> found;
    while (!found && clock::now() < begun + std::chrono::seconds(30)) {
        found = one.read();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    BOOST_TEST((found == id));
    // A thousand ranks look 20 times a second: not all of that reaches the server.
    BOOST_TEST(opened <= 1 + (clock::now() - begun) / std::chrono::milliseconds(500));
}

/// As by another process, which collects places without files.
BOOST_AUTO_TEST_CASE(directories_that_are_removed_as_they_are_made_are_made_again) {
    support::scratch dir;
    auto const parent = dir.dir / "runs", place = parent / "c";
    watching const w(dir.dir.string());
    int times = 3;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        if (what == "mkdir" && path == place.string() && times-- > 0) fs::remove(parent);
        return 0;
    };
    (void)save_to(place.string());
    BOOST_TEST(times < 0);
    BOOST_TEST(is_there(place.string()));
}

/// As one that belongs to the administrator, of mode 0711 or 0333.
BOOST_AUTO_TEST_CASE(the_file_system_is_synced_where_a_parent_may_not_be_read) {
    for (int const e : {0, EIO}) {
        support::scratch dir;
        auto const parent = (dir.dir / "others").string(), id = parent + "/c";
        fs::create_directory(parent);
        watching const w(dir.dir.string());
        w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
            if (what == "open" && path == parent) return EACCES;
            return what == "syncfs" ? e : 0;
        };
        auto const report = save_to(id);
        auto const seen = w.s.seen();
        auto const synced = first(seen, 0, is("sync", id));
        BOOST_TEST((synced != none));
        BOOST_TEST(std::count_if(report.warnings.begin(), report.warnings.end(),
                                 warns_of("may not be read")) == (e == 0 ? 0 : 1));
        BOOST_TEST(is_there(id));
    }
}

/// What is above the link is not above the place.
BOOST_AUTO_TEST_CASE(what_is_above_the_place_that_a_link_leads_to_is_synced) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    fs::create_directories(root / "real" / "deep");
    fs::create_directory_symlink(root / "real" / "deep", root / "link");
    watching const w(root.string());
    (void)save_to((root / "link" / ".." / "c").string());
    auto const seen = w.s.seen();
    for (auto const& above : {root / "real", root})
        BOOST_TEST((first(seen, 0, is("sync", above.string())) != none));
    BOOST_TEST(is_there((root / "real" / "c").string()));
    (void)save_to((root / "link").string());
    BOOST_TEST((first(w.s.seen(), seen.size(), is("sync", (root / "real").string())) != none));
}

/// As NFS does: its server has carried the rename out before it was replaced, and the next one is
/// asked again. The host still believes that there is no target, until it changes the directory.
BOOST_AUTO_TEST_CASE(an_export_whose_rename_was_carried_out_already_is_no_failure) {
    support::scratch dir;
    auto const to = (dir.dir / "m").string();
    std::vector<float> w{1};
    watching const watched(dir.dir.string());
    bool absent = false;
    int lost = 0;
    watched.s.afterwards = [&](std::string_view what, const std::string& path) {
        if (what == "create" && fs::path(path).parent_path() == dir.dir) absent = false;
        if (what != "rename" || path != to) return 0;
        ++lost;
        absent = true;
        return ENOENT;
    };
    watched.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        return absent && (what == "look" || what == "open") && path.starts_with(to) ? ENOENT : 0;
    };
    BOOST_CHECK_NO_THROW(
        (void)cairn::save(cairn::state_dict{{"w", w}}, to, cairn::safetensors_writer()));
    watched.s.afterwards = nullptr;
    BOOST_TEST(lost == 1);
    BOOST_TEST(support::names(dir.dir.string()) == "m m/model.safetensors ");
}

/// As on sshfs: what has taken hours does not fail because a child of the trainer ends.
BOOST_AUTO_TEST_CASE(a_signal_during_the_rename_of_an_export_is_no_failure) {
    for (bool const afterwards : {false, true})
        for (bool const has_flags : {true, false}) {
            support::scratch dir;
            auto const to = (dir.dir / "m").string();
            std::vector<float> w{1};
            watching const watched(dir.dir.string());
            int tries = 0;
            auto const interrupt = [&](std::string_view what, const std::string& path) {
                return what == "rename" && path == to && tries++ == 0 ? EINTR : 0;
            };
            watched.s.before = [&, asked = false](std::string_view what, const std::string& path,
                                                  std::uint64_t) mutable {
                // Without flags a plain rename follows.
                if (!has_flags && what == "rename" && path == to && !std::exchange(asked, true))
                    return EINVAL;
                return afterwards ? 0 : interrupt(what, path);
            };
            if (afterwards) watched.s.afterwards = interrupt;
            BOOST_CHECK_NO_THROW(
                (void)cairn::save(cairn::state_dict{{"w", w}}, to, cairn::safetensors_writer()));
            watched.s.afterwards = nullptr;
            BOOST_TEST(tries > 0);
            BOOST_TEST(support::names(dir.dir.string()) == "m m/model.safetensors ");
        }
}

/// Another process has made it since the call that the signal has interrupted.
BOOST_AUTO_TEST_CASE(a_plain_rename_that_is_made_again_after_a_signal_replaces_nothing) {
    support::scratch dir;
    auto const to = (dir.dir / "b").string();
    cairn::file_store store(dir.dir);
    store.publish("a", {}, std::nullopt);
    watching const watched(dir.dir.string());
    int tries = 0;
    watched.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        if (what != "rename" || path != to) return 0;
        if (++tries == 1) return EINVAL;  // no flags
        if (tries > 2) return 0;
        std::ofstream(to) << "other";
        return EINTR;
    };
    BOOST_CHECK_EXCEPTION(store.move("a", "b"), cairn::error, [](const auto& e) {
        return e.code() == make_error_code(cairn::errc::already_exists);
    });
    BOOST_TEST(tries == 2);
    BOOST_TEST(fs::file_size(to) == 5u);
}

/// As overlayfs, of what is in the image of a container.
BOOST_AUTO_TEST_CASE(a_directory_that_cannot_be_exchanged_is_told_with_a_remedy) {
    support::scratch dir;
    auto const to = (dir.dir / "m").string();
    std::vector<float> w{1};
    auto const save = [&] {
        (void)cairn::save(cairn::state_dict{{"w", w}}, to, cairn::safetensors_writer());
    };
    save();
    watching const watched(dir.dir.string());
    watched.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        return what == "exchange" && path == to ? EXDEV : 0;
    };
    BOOST_CHECK_EXCEPTION(save(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::unsupported) &&
               e.context().remedy == "choose a name that nothing has";
    });
    BOOST_TEST(support::names(dir.dir.string()) == "m m/model.safetensors ");
}

BOOST_AUTO_TEST_SUITE_END()
