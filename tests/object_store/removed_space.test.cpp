// SPDX-License-Identifier: Apache-2.0
// A removed file's name is gone at once and its space soon, whoever forks meanwhile.
#include "support/scratch.hpp"

#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/posix_file.hpp>
#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(removed_space)

namespace {

namespace fs = std::filesystem;
using cairn::detail::file_system;
using cairn::detail::file_system_of;
using cairn::detail::open_path;
using spaces = cairn::detail::removed_space;

constexpr std::size_t large = spaces::least_bytes;

/// How many descriptors of this process refer to files of a directory, those without a name if
/// none is told. Takes no memory: a forked child may call it.
int held_of(const std::string& directory, std::string_view ending = " (deleted)") noexcept {
    int n = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        std::array<char, 64> link{};
        std::array<char, 4096> to{};
        std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
        auto const got = ::readlink(link.data(), to.data(), to.size());
        if (got <= 0) continue;
        std::string_view const name(to.data(), static_cast<std::size_t>(got));
        n += name.starts_with(directory) && name.ends_with(ending) ? 1 : 0;
    }
    return n;
}

struct place {
    support::scratch s{};
    cairn::file_store store{s.dir};
    std::string at = fs::canonical(s.dir).string();

    /// Nothing is given back before somebody waits for it.
    place() {
        spaces::of_process().wait();
        spaces::of_process().set_pause(std::chrono::hours(1));
    }
    ~place() {
        spaces::of_process().wait();
        spaces::of_process().set_pause(spaces::usual_pause);
    }
    void make(const std::string& name, std::size_t bytes) {
        auto h = store.create(name, bytes);
        h.write(0, cairn::byte_vector(bytes));
        h.finish(false);
    }
    int held() const { return held_of(at); }
    /// Whether the space of files here cannot be held; says so.
    bool holds_nothing() {
        make("probe", large);
        store.remove("probe");
        bool const none = held() == 0;
        spaces::of_process().wait();
        auto const here = open_path(s.dir.string(), O_RDONLY | O_DIRECTORY);
        if (file_system_of(here.get()) != file_system::other) {
            BOOST_TEST(!none);
            return none;
        }
        std::cout << "removed space: skipped: files in " << s.dir << " may be another host's\n";
        return true;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(space_is_given_back_after_the_name) {
    place p;
    if (p.holds_nothing()) return;
    for (auto const* name : {"a", "sub/b"}) {
        p.make(name, large);
        p.store.remove(name);
        BOOST_TEST(!cairn::detail::exists(p.store, name));
        BOOST_TEST(p.held() == 1);
        spaces::of_process().wait();
        BOOST_TEST(p.held() == 0);
    }
}

BOOST_AUTO_TEST_CASE(space_is_given_back_without_anyone_who_waits) {
    place p;
    spaces::of_process().set_pause(std::chrono::milliseconds(1));
    p.make("a", large);
    p.store.remove("a");
    auto const end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (p.held() != 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_TEST(p.held() == 0);
}

BOOST_AUTO_TEST_CASE(space_that_is_small_or_not_given_back_at_all_is_not_held) {
    place p;
    p.make("small", large - 4096);
    p.store.remove("small");
    BOOST_TEST(p.held() == 0);
    // Its other name keeps it.
    p.make("two names", large);
    fs::create_hard_link(p.s.dir / "two names", p.s.dir / "the other");
    p.store.remove("two names");
    BOOST_TEST(held_of(p.at, "") == 0);
    // A file whose size is all that it has.
    std::ofstream(p.s.dir / "sparse").close();
    fs::resize_file(p.s.dir / "sparse", 64 * large);
    p.store.remove("sparse");
    BOOST_TEST(p.held() == 0);
    p.store.remove("none");
}

/// Otherwise a data loader's worker would keep it for as long as it lives.
BOOST_AUTO_TEST_CASE(space_is_not_kept_by_a_child) {
    place p;
    if (p.holds_nothing()) return;
    p.make("a", large);
    p.make("b", large);
    p.store.remove("a");
    p.store.remove("b");
    BOOST_REQUIRE(p.held() == 2);
    auto const child = ::fork();
    if (child == 0) {
        int const kept = p.held();
        // What the child removes itself is given back too.
        ::close(::open((p.s.dir / "c").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        struct ::stat s {};
        (void)::stat((p.s.dir / "c").c_str(), &s);
        s.st_blocks = large / 512;
        {
            spaces::hold const h(AT_FDCWD, (p.s.dir / "c").c_str(), s);
            ::unlink((p.s.dir / "c").c_str());
        }
        int const held = p.held();
        spaces::of_process().wait();
        ::_exit(10 * kept + 2 * (held != 1) + p.held());
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
    BOOST_TEST(p.held() == 2);
}

/// At whatever moment of a removal the fork comes: one thread forks, one removes.
BOOST_AUTO_TEST_CASE(space_is_given_back_while_others_fork) {
    place p;
    for (int round = 0; round < 50; ++round) {
        p.make("a", large);
        std::thread removes([&] {
            p.store.remove("a");
            spaces::of_process().wait();
        });
        auto const child = ::fork();
        if (child == 0) {
            spaces::of_process().wait();
            // With its name or without: the space is not held here. The directory may be open.
            ::_exit(held_of(p.at, "/a") + p.held());
        }
        int status = -1;
        BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
        BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
        removes.join();
        BOOST_TEST(p.held() == 0);
    }
}

/// Who waits skips the pause, however many do, and whatever is removed meanwhile.
BOOST_AUTO_TEST_CASE(many_may_wait_for_space) {
    place p;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank)
        ranks.emplace_back([&p, rank] {
            for (int k = 0; k < 10; ++k) {
                auto const name = std::to_string(rank);
                p.make(name, large);
                p.store.remove(name);
                spaces::of_process().wait();
            }
        });
    for (auto& r : ranks) r.join();
    BOOST_TEST(p.held() == 0);
}

BOOST_AUTO_TEST_CASE(whoever_waits_is_told_of_each_file) {
    place p;
    if (p.holds_nothing()) return;
    for (auto const* name : {"a", "b", "c"}) {
        p.make(name, large);
        p.store.remove(name);
    }
    int moved = 0;
    spaces::of_process().wait([&] { ++moved; });
    BOOST_TEST(moved >= 1);
    BOOST_TEST(p.held() == 0);
}

BOOST_AUTO_TEST_CASE(removed_space_takes_few_descriptors) {
    place p;
    constexpr int files = 80;
    for (int i = 0; i < files; ++i) p.make(std::to_string(i), large);
    for (int i = 0; i < files; ++i) {
        p.store.remove(std::to_string(i));
        BOOST_REQUIRE(p.held() <= 64);
    }
    spaces::of_process().wait();
    BOOST_TEST(p.held() == 0);
}

/// A network file system would keep the file under another name, and with it the directory.
BOOST_AUTO_TEST_CASE(space_is_held_on_file_systems_of_this_host_only) {
    place p;
    struct ::stat s {};
    BOOST_REQUIRE(::stat("/proc/self/status", &s) == 0);
    s.st_blocks = 4096;
    auto const dir = open_path("/proc/self", O_PATH | O_DIRECTORY);
    {
        spaces::hold const h(dir.get(), "status", s);
        BOOST_TEST(held_of("/proc/", "/status") == 0);
    }
    auto const here = open_path(p.s.dir.string(), O_PATH | O_DIRECTORY);
    spaces::hold const none(here.get(), "none", s);
    BOOST_TEST(p.held() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
