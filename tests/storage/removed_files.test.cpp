// SPDX-License-Identifier: Apache-2.0
// What becomes of the space of a removed file, seen by the calls of the file store.
#include "recorded_calls.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(removed_files)

namespace {

using support::first;
using support::is;
using support::is_data;
using support::none;
using support::system_call;
using support::watching;

/// A file of some MiB.
void make(cairn::file_store& store, const std::string& name) {
    constexpr std::size_t bytes = std::size_t{4} << 20;
    auto h = store.create(name, bytes);
    h.write(0, cairn::byte_vector(bytes));
    h.finish(false);
}

}  // namespace

/// The space of what the last save has replaced is there when a rank creates its next file, in
/// every format.
BOOST_AUTO_TEST_CASE(a_save_has_the_space_of_what_the_last_one_has_removed) {
    auto const check = [](auto&&... writer) {
        support::scratch dir;
        auto const id = (dir.dir / "c").string();
        watching const w(dir.dir.string());
        w.s.all_is = EXT4_SUPER_MAGIC;
        std::vector<float> v(std::size_t{1} << 20);
        for (int k = 0; k < 3; ++k) (void)cairn::save(cairn::state_dict{{"w", v}}, id, writer...);
        auto const is_large = [](const system_call& c) {
            return is_data(c) || c.path.ends_with(".safetensors");
        };
        auto const seen = w.s.seen();
        int removed = 0;
        for (std::size_t i = 0; i < seen.size(); ++i) {
            if (seen[i].what != "remove" || !is_large(seen[i])) continue;
            auto const next =
                first(seen, i, [&](auto const& c) { return c.what == "create" && is_large(c); });
            if (next == none) continue;
            ++removed;
            BOOST_TEST(first(seen, i, is("close", seen[i].path)) < next);
        }
        BOOST_TEST(removed == 1);
    };
    check();
    check(cairn::safetensors_writer());
}

/// In saves one after the other only the coordinator has files to free, and all ranks wait for it.
BOOST_AUTO_TEST_CASE(who_waits_for_space_gives_it_back_too) {
    support::scratch dir;
    watching const w(dir.dir.string());
    w.s.all_is = EXT4_SUPER_MAGIC;
    cairn::file_store store(dir.dir);
    auto& space = cairn::detail::removed_space::of_process();
    space.wait();
    space.set_pause(std::chrono::hours(1));  // nothing is given back before the call of `wait`
    for (auto const* name : {"a", "b"}) {
        make(store, name);
        store.remove(name);
    }
    // No file is freed before another one is being freed; the limit is for where that never comes.
    std::mutex m;
    std::condition_variable more;
    std::set<std::thread::id> closing;
    w.s.afterwards = [&](std::string_view what, const std::string& path) {
        if (what != "close" || (path != store.describe("a") && path != store.describe("b")))
            return 0;
        std::unique_lock lock(m);
        closing.insert(std::this_thread::get_id());
        more.notify_all();
        more.wait_for(lock, std::chrono::seconds(20), [&] { return closing.size() == 2; });
        return 0;
    };
    space.wait();
    w.s.afterwards = nullptr;
    space.set_pause(cairn::detail::removed_space::usual_pause);
    BOOST_TEST(closing.size() == 2);
    BOOST_TEST(closing.count(std::this_thread::get_id()) == 1);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_tried_again_when_removed_files_have_given_their_space_back) {
    support::scratch dir;
    watching const w(dir.dir.string());
    w.s.all_is = EXT4_SUPER_MAGIC;
    cairn::file_store store(dir.dir / "place");
    for (int const full : {ENOSPC, EDQUOT}) {
        make(store, "old");
        w.s.watch(dir.dir.string());
        store.remove("old");
        w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
            bool const freed =
                first(w.s.seen(), 0, is("close", (dir.dir / "place/old").string())) != none;
            return what == "reserve" && !freed ? full : 0;
        };
        BOOST_CHECK_NO_THROW(store.create("new", 1000).finish(false));
        w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
            return what == "reserve" ? full : 0;
        };
        BOOST_CHECK_THROW(store.create("newer", 1000), cairn::error);
        w.s.before = nullptr;
        store.remove("new");
    }
}

/// Whenever a fork comes, the child has no descriptor of what is being removed; and it closes none
/// of its own.
BOOST_AUTO_TEST_CASE(a_fork_within_a_removal_takes_nothing_along) {
    support::scratch dir;
    auto const file = (std::filesystem::canonical(dir.dir) / "a").string();
    watching const w(dir.dir.string());
    w.s.all_is = EXT4_SUPER_MAGIC;
    cairn::file_store store(dir.dir);
    int children = 0;
    auto const in_child = [&](auto&& is_well) {
        ++children;
        auto const child = ::fork();
        if (child == 0) ::_exit(is_well() ? 0 : 1);
        int status = -1;
        BOOST_TEST(::waitpid(child, &status, 0) == child);
        BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    };
    // Before the name is gone.
    make(store, "a");
    w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
        if (what == "remove")
            in_child([&] {
                for (int fd = 0; fd < 1024; ++fd) {
                    std::array<char, 4096> to{};
                    auto const link = "/proc/self/fd/" + std::to_string(fd);
                    auto const n = ::readlink(link.c_str(), to.data(), to.size());
                    if (n > 0 && std::string_view(to.data(), static_cast<std::size_t>(n)) == file)
                        return false;
                }
                return true;
            });
        return 0;
    };
    store.remove("a");
    w.s.before = nullptr;
    BOOST_TEST(children == 1);
    cairn::detail::removed_space::of_process().wait();
    // Its descriptor is closed, and the number another file's, but that is not noted yet.
    make(store, "a");
    w.s.afterwards = [&](std::string_view what, const std::string& path) {
        if (what != "close" || path != store.describe("a")) return 0;
        std::array<int, 64> others{};  // one of them gets that number
        for (int& fd : others) fd = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        in_child([&] {
            return std::all_of(others.begin(), others.end(),
                               [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; });
        });
        for (int const fd : others) ::__real_close(fd);
        return 0;
    };
    store.remove("a");
    cairn::detail::removed_space::of_process().wait();
    w.s.afterwards = nullptr;
    BOOST_TEST(children == 2);
}

/// Space that cannot be held on to is given back with the name.
BOOST_AUTO_TEST_CASE(a_file_is_removed_also_if_its_space_cannot_wait) {
    support::scratch dir;
    watching const w(dir.dir.string());
    cairn::file_store store(dir.dir / "place");
    make(store, "a");
    int refused = 0;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
        bool const this_one = what == "open" && path.ends_with("/a");
        refused += this_one;
        return this_one ? EMFILE : 0;
    };
    BOOST_CHECK_NO_THROW(store.remove("a"));
    BOOST_TEST(refused == 1);
    BOOST_TEST(support::names(dir.dir.string()) == "place ");
}

BOOST_AUTO_TEST_SUITE_END()
