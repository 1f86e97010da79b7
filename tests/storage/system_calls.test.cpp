// SPDX-License-Identifier: Apache-2.0
// What the file store asks of the system, and in which order: what makes a checkpoint durable, what
// a slow disk or a failed call does to a save, and a kill before any single call.
#include "recorded_calls.hpp"
#include "support/data_files.hpp"
#include "support/direct_io.hpp"
#include "support/dying_store.hpp"
#include "support/sanitized.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/object_store/read_whole.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(system_calls)

namespace fs = std::filesystem;

namespace {

using support::calls;
using support::first;
using support::is;
using support::is_data;
using support::last;
using support::names;
using support::none;
using support::system_call;
using support::watching;

void save_value(const std::string& id, float v, int ranks, std::size_t elements = 64,
                const cairn::save_options& o = {}) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        std::vector<float> w(elements, v);
        auto const n = static_cast<std::int64_t>(elements);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {n}, w.data()),
                                       {n * ranks}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, me.rank())}};
        cairn::save(sd, id, o, me);
    });
}
float standing(const std::string& id) {
    if (!fs::exists(fs::path(id) / ".metadata")) return 0;
    auto const w = support::load_whole(cairn::file_store(), id);
    return support::only_number(w.tensors.at("w"));
}
/// Everything that a checkpoint needs was durable before it got its name, and its name was before
/// anything else was removed.
void check_order(const calls& all, const std::string& dir) {
    auto const parent = fs::path(dir).parent_path().string();
    auto const committed = first(all, 0, is("rename", dir + "/.metadata"));
    BOOST_REQUIRE(committed != none);
    auto const synced_between = [&](const std::string& path, std::size_t from, std::size_t to) {
        auto const at = first(all, from, is("sync", path));
        return at != none && at < to;
    };
    std::size_t files = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const& c = all[i];
        BOOST_TEST_CONTEXT("call " << i << ": " << c.what << " " << c.path) {
            if (c.what == "mkdir") {
                BOOST_TEST(synced_between(fs::path(c.path).parent_path().string(), i, committed));
            }
            if (c.what == "create" && is_data(c)) {
                ++files;
                auto const written = last(all, is("write", c.path));
                BOOST_REQUIRE(written != none);
                BOOST_TEST(written < committed);
                BOOST_TEST(synced_between(c.path, written, committed), "the file is not synced");
                auto const own = fs::path(c.path).parent_path().string();
                BOOST_TEST(synced_between(own, i, committed), "its name is not synced");
                // What may be left of it is known from before it is there.
                auto const listed = first(all, 0, [&](const system_call& s) {
                    return s.what == "rename" && s.path.starts_with(dir + "/.saving.");
                });
                BOOST_TEST(listed < i);
                BOOST_TEST(synced_between(dir, listed, i), "the intent's name is not synced");
            }
            if (c.what == "rename") {
                auto const written = last(all, is("write", c.from));
                BOOST_TEST(synced_between(c.from, written, i), "renamed before it was synced");
            }
            if (c.what == "remove" && is_data(c)) {
                BOOST_TEST(committed < i);
                BOOST_TEST(synced_between(dir, committed, i), "removed before the commit is safe");
            }
            if (c.what == "remove" && c.path.starts_with(dir + "/.saving.")) {
                auto const removed = last(
                    all, [](const system_call& s) { return s.what == "remove" && is_data(s); });
                if (removed == none) continue;
                BOOST_TEST(removed < i);
                auto const own = fs::path(all[removed].path).parent_path().string();
                BOOST_TEST(synced_between(own, removed, i), "forgot what may come back");
            }
        }
    }
    BOOST_TEST(files > 0u);
    BOOST_TEST(synced_between(dir, committed, none), "the commit is not synced");
    BOOST_TEST(synced_between(parent, committed, none), "nor is the directory's own name");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_is_durable_before_it_is_there_and_there_before_it_removes) {
    support::scratch dir;
    auto const id = (dir.dir / "runs" / "step_1").string();
    watching const w(dir.dir.string());
    cairn::save_options nested;
    nested.storage.file_name = [](int rank, int n) {
        return "rank" + std::to_string(rank) + "/" + std::to_string(n) + ".bin";
    };
    for (auto const& o : {cairn::save_options(), nested}) {
        for (int ranks : {1, 2}) {
            for (float v : {1.0f, 2.0f}) {  // into an empty place, and over a checkpoint
                BOOST_TEST_CONTEXT(ranks << " ranks, save " << v) {
                    w.s.watch(dir.dir.string());
                    save_value(id, v, ranks, 64, o);
                    check_order(w.s.seen(), id);
                }
            }
            fs::remove_all(dir.dir / "runs");
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_in_doubt_says_yes_only_when_the_name_is_durable) {
    support::scratch dir;
    auto const id = (dir.dir / "c").string();
    std::vector<float> v(4, 1);
    cairn::state_dict sd{{"w", v}};
    auto const save_id = cairn::save(sd, id).save_id;
    cairn::torch_writer writer{cairn::file_store()};
    writer.reset(id);
    watching const w(dir.dir.string());
    BOOST_TEST(writer.committed(save_id));
    BOOST_TEST((first(w.s.seen(), 0, is("sync", id)) != none));
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        return what == "fsync" && path == id ? EIO : 0;
    };
    BOOST_CHECK_THROW((void)writer.committed(save_id), cairn::error);
    // A file system that an error has made read-only keeps nothing either.
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        return what == "fsync" && path == id ? EROFS : 0;
    };
    BOOST_CHECK_THROW((void)writer.committed(save_id), cairn::error);
}

/// A disk that takes 40 ms for each MiB: the whole file in one `fsync` takes longer than the ranks
/// wait for one that does nothing.
BOOST_AUTO_TEST_CASE(a_slow_disk_is_work_that_goes_on) {
    enum way { ranges, whole, direct };
    for (auto const by : {ranges, whole, direct}) {
        support::scratch dir;
        auto const id = (dir.dir / "c").string();
        watching const w(dir.dir.string());
        if (by == direct && support::lacks_direct_io(dir.dir)) return;
        w.s.all_is = by == ranges ? EXT4_SUPER_MAGIC : by == whole ? NFS_SUPER_MAGIC : 0;
        std::atomic<std::uint64_t> dirty{0};
        w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t bytes) {
            if (!path.ends_with(".distcp")) return 0;
            if (what == "write") dirty += bytes;
            if (what == "start" || what == "fsync" || what == "fdatasync" ||
                (what == "write" && by == direct))
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(40 * dirty.exchange(0) >> 20));
            return 0;
        };
        cairn::save_options o;
        o.exchange_timeout = std::chrono::seconds(4);
        constexpr std::size_t elements = std::size_t{40} << 20;  // 160 MiB, 6.4 s
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            std::vector<float> v(me.rank() == 0 ? elements : 0, 1.0f);
            cairn::state_dict sd;
            if (me.rank() == 0) sd["w"] = v;
            cairn::file_store store({}, {.direct_writes = by == direct});
            BOOST_CHECK_NO_THROW(cairn::save(sd, id, o, me, store));
        });
        auto const seen = w.s.seen();
        auto const data = support::data_file_in(id, "__0_0").string();
        if (by == ranges) BOOST_TEST((first(seen, 0, is("start", data)) != none));
        BOOST_TEST((last(seen, is("sync", data)) > last(seen, is("write", data))));
    }
}

BOOST_AUTO_TEST_CASE(the_system_writes_back_when_it_likes_without_sync_files) {
    support::scratch dir;
    watching const w(dir.dir.string());
    w.s.all_is = EXT4_SUPER_MAGIC;
    cairn::save_options o;
    o.storage.sync_files = false;
    save_value((dir.dir / "c").string(), 1, 1, std::size_t{20} << 20, o);
    for (auto const& c : w.s.seen())
        if (is_data(c)) BOOST_TEST((c.what != "start" && c.what != "sync"), c.what);
}

/// A call may do less than it was asked for, and a signal may interrupt it before it does anything.
BOOST_AUTO_TEST_CASE(short_and_interrupted_calls_are_gone_on_with) {
    support::scratch dir;
    watching const w(dir.dir.string());
    w.s.most_at_once = 1000;
    int calls = 0;
    bool listing = false;
    w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
        std::set<std::string_view> const all{"write", "read", "fsync", "mkdir", "remove", "rmdir"};
        bool const may_wait = all.contains(what) || (what == "look" && listing);
        return may_wait && ++calls % 2 == 1 ? EINTR : 0;
    };
    cairn::file_store store(dir.dir / "place");
    cairn::byte_vector bytes(4500), read(4500);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
    auto h = store.create("a", bytes.size());
    h.write(0, bytes);
    h.finish(true);
    store.open("a").read(0, read);
    BOOST_TEST((read == bytes));
    listing = true;
    BOOST_TEST(store.list().size() == 1u);
    listing = false;
    store.remove("a");
    cairn::file_store(dir.dir).remove_place("place");
    BOOST_TEST(!fs::exists(dir.dir / "place"));
    BOOST_TEST(calls > 20);
}

/// Pages that were reserved in memory are written more slowly.
BOOST_AUTO_TEST_CASE(space_in_memory_is_compared_and_not_reserved) {
    support::scratch dir;
    watching const w(dir.dir.string());
    cairn::file_store store(dir.dir / "place");
    auto const file = (dir.dir / "place" / "a").string();
    for (bool memory : {true, false}) {
        w.s.watch(dir.dir.string());
        w.s.all_is = memory ? TMPFS_MAGIC : EXT4_SUPER_MAGIC;
        store.create("a", 100'000).finish(false);
        auto const seen = w.s.seen();
        BOOST_TEST((first(seen, 0, is("resize", file)) != none) == memory);
        BOOST_TEST(fs::file_size(file) == 100'000u);
        store.remove("a");
        // Not more than a file may have: only the comparison refuses that.
        auto const much = memory ? fs::space(dir.dir).available + (std::uint64_t{1} << 30)
                                 : std::uint64_t{1} << 60;
        BOOST_CHECK_EXCEPTION(store.create("a", much), cairn::error, [](const cairn::error& e) {
            return std::string(e.what()).find(" bytes free") != std::string::npos;
        });
        BOOST_TEST(!fs::exists(file));
    }
}

BOOST_AUTO_TEST_CASE(a_failed_sync_is_final_for_its_file) {
    support::scratch dir;
    watching const w(dir.dir.string());
    w.s.all_is = EXT4_SUPER_MAGIC;
    cairn::file_store store(dir.dir / "place", {.direct_writes = false});
    cairn::byte_vector const bytes(std::size_t{40} << 20);
    int fail_left = 1;
    auto const fail_once = [&](std::string which, int e) {
        fail_left = 1;
        w.s.before = [&fail_left, which, e](std::string_view what, const std::string&,
                                            std::uint64_t) {
            return what == which && fail_left-- > 0 ? e : 0;
        };
    };
    auto const is_io = [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::io);
    };
    {
        auto h = store.create("a", bytes.size());
        fail_once("start", EIO);
        BOOST_CHECK_EXCEPTION(h.write(0, bytes), cairn::error, is_io);
        BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is_io);
    }
    {
        auto h = store.create("b", bytes.size());
        fail_once("fsync", ENOSPC);
        h.write(0, bytes);
        BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is_io);
        BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is_io);
    }
    for (bool direct : {false, true}) {
        cairn::file_store way(dir.dir / "place", {.direct_writes = direct});
        auto h = way.create("c", bytes.size());
        fail_once("write", EIO);
        BOOST_CHECK_EXCEPTION(h.write(0, bytes), cairn::error, is_io);
        auto moved = std::move(h);
        BOOST_CHECK_EXCEPTION(moved.finish(false), cairn::error, is_io);
    }
    BOOST_TEST(names(dir.dir.string()) == "place ");
    {  // a kernel or file system that knows no ranges
        auto h = store.create("d", bytes.size());
        fail_once("start", ENOSYS);
        h.write(0, bytes);
        h.finish(true);
        auto const file = (dir.dir / "place" / "d").string();
        auto const seen = w.s.seen();
        auto const synced = first(seen, 0, is("sync", file));
        BOOST_TEST(synced < last(seen, is("write", file)));
    }
    {  // a signal is no failure
        auto h = store.create("e", bytes.size());
        h.write(0, bytes);
        fail_once("fsync", EINTR);
        BOOST_CHECK_NO_THROW(h.finish(true));
    }
}

BOOST_AUTO_TEST_CASE(a_file_that_its_server_has_forgotten_was_moved) {
    support::scratch dir;
    auto const id = (dir.dir / "c").string();
    save_value(id, 1, 1);
    watching const w(dir.dir.string());
    auto const stale = [&](std::string which, std::string ending) {
        w.s.before = [which, ending](std::string_view what, const std::string& path,
                                     std::uint64_t) {
            return what == which && path.ends_with(ending) ? ESTALE : 0;
        };
    };
    // A load that meets it looks again, and finds what has replaced the checkpoint.
    bool replaced = false;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        if (replaced || what != "read" || !path.ends_with(".distcp")) return 0;
        replaced = true;
        save_value(id, 2, 1);
        return ESTALE;
    };
    BOOST_TEST(standing(id) == 2.0f);
    BOOST_TEST(replaced);
    for (auto const* which : {"write", "fsync", "create"}) {
        stale(which, ".distcp");
        BOOST_CHECK_EXCEPTION(save_value(id, 3, 1), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::io);
        });
        w.s.before = nullptr;
        BOOST_TEST(standing(id) == 2.0f);
    }
}

BOOST_AUTO_TEST_CASE(a_kill_before_any_call_leaves_nothing_that_is_not_collected,
                     *boost::unit_test::enable_if<support::children_make_threads>()) {
    support::failure_points calls(3);
    int killed = 0;
    for (bool old : {true, false}) {
        support::scratch dir;
        auto const id = (dir.dir / "c").string();
        if (old) save_value(id, 1, 1);
        float before = old ? 1.0f : 0.0f;
        for (int at = calls.first();; at += calls.stride()) {
            auto const v = static_cast<float>(at + 2);
            auto const how = support::in_process([&] {
                auto& s = support::system_calls::get();
                s.watch(dir.dir.string());
                std::atomic<int> n{0};
                s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
                    if (support::can_change(what) && n++ == at) ::raise(SIGKILL);
                    return 0;
                };
                save_value(id, v, 1);
            });
            BOOST_REQUIRE((how != support::ended::badly));
            auto const now = standing(id);
            BOOST_TEST((now == before || now == v), "what stands is " << now);
            before = now;
            if (how == support::ended::well) break;
            ++killed;
        }
        save_value(id, 500, 1);
        BOOST_TEST(standing(id) == 500.0f);
        auto const left = std::distance(fs::directory_iterator(id), fs::directory_iterator());
        BOOST_TEST(left == 2, "left: " << names(id));
    }
    std::cout << "system calls: " << killed << " processes killed\n";
    BOOST_TEST(killed > 50 / calls.stride());
}

BOOST_AUTO_TEST_SUITE_END()
