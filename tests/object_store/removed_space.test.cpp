// SPDX-License-Identifier: Apache-2.0
// A removed file's name is gone at once and its space soon, whoever forks meanwhile.
#include "support/scratch.hpp"

#include <cairn/object_store/exists.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/file_system.hpp>
#include <cairn/object_store/removed_space.hpp>
#include <cairn/object_store/unique_fd.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
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
using cairn::detail::unique_fd;
using spaces = cairn::detail::removed_space;

constexpr std::size_t large = spaces::least_bytes;

/// How many descriptors of this process refer to files of a directory that have no name any more.
/// Takes no memory: a forked child may call it.
int held_of(const std::string& directory) noexcept {
    int n = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        std::array<char, 64> link{};
        std::array<char, 4096> to{};
        std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
        auto const got = ::readlink(link.data(), to.data(), to.size());
        if (got <= 0) continue;
        std::string_view const name(to.data(), static_cast<std::size_t>(got));
        n += name.starts_with(directory) && name.ends_with(" (deleted)") ? 1 : 0;
    }
    return n;
}

struct place {
    support::scratch s{};
    cairn::file_store store{s.dir};
    std::string at = fs::canonical(s.dir).string();

    place() { spaces::of_process().wait(); }
    ~place() { spaces::of_process().wait(); }
    void make(const std::string& name, std::size_t bytes) {
        auto h = store.create(name, bytes);
        h.write(0, cairn::byte_vector(bytes));
        h.finish(false);
    }
    int held() const { return held_of(at); }
    /// Whether files here are those of another host, perhaps; says so.
    bool is_unknown() const {
        unique_fd const here(::open(s.dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        bool const unknown = file_system_of(here.get()) == file_system::other;
        if (unknown) std::cout << "removed space: skipped: an unknown file system\n";
        return unknown;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(is_given_back_after_the_name) {
    place p;
    if (p.is_unknown()) return;
    for (auto const* name : {"a", "sub/b"}) {
        p.make(name, large);
        p.store.remove(name);
        BOOST_TEST(!cairn::detail::exists(p.store, name));
        BOOST_TEST(p.held() == 1);
        spaces::of_process().wait();
        BOOST_TEST(p.held() == 0);
    }
    // Without anyone who waits.
    p.make("c", large);
    p.store.remove("c");
    while (p.held() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

BOOST_AUTO_TEST_CASE(is_given_back_at_once_if_it_is_small_or_not_given_back_at_all) {
    place p;
    p.make("small", large - 4096);
    p.store.remove("small");
    BOOST_TEST(p.held() == 0);
    // Its other name keeps it.
    p.make("two names", large);
    fs::create_hard_link(p.s.dir / "two names", p.s.dir / "the other");
    p.store.remove("two names");
    BOOST_TEST(p.held() == 0);
    // A file whose size is all that it has.
    { (void)unique_fd(::open((p.s.dir / "sparse").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
    fs::resize_file(p.s.dir / "sparse", 64 * large);
    p.store.remove("sparse");
    BOOST_TEST(p.held() == 0);
    p.store.remove("none");
}

/// Otherwise a data loader's worker would keep it for as long as it lives.
BOOST_AUTO_TEST_CASE(is_not_kept_by_a_child) {
    place p;
    if (p.is_unknown()) return;
    p.make("a", large);
    p.make("b", large);
    p.store.remove("a");
    p.store.remove("b");
    BOOST_REQUIRE(p.held() == 2);
    auto const child = ::fork();
    if (child == 0) {
        int const kept = held_of(p.at);
        // What the child removes itself is given back too.
        spaces::of_process().free_later(unique_fd(::open("/dev/null", O_PATH | O_CLOEXEC)));
        spaces::of_process().wait();
        ::_exit(kept);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
    BOOST_TEST(p.held() == 2);
}

/// Forks beside the thread that frees: no child ends up with half of a descriptor, or waits.
BOOST_AUTO_TEST_CASE(is_given_back_while_others_fork) {
    place p;
    for (int round = 0; round < 20; ++round) {
        p.make("a", large);
        p.store.remove("a");
        std::thread waits([] { spaces::of_process().wait(); });
        auto const child = ::fork();
        if (child == 0) {
            spaces::of_process().wait();
            ::_exit(held_of(p.at));
        }
        int status = -1;
        BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
        BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
        waits.join();
        BOOST_TEST(p.held() == 0);
    }
}

BOOST_AUTO_TEST_CASE(takes_few_descriptors) {
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
BOOST_AUTO_TEST_CASE(is_held_on_file_systems_of_this_host_only) {
    struct ::stat s {};
    BOOST_REQUIRE(::stat("/proc/self/status", &s) == 0);
    s.st_blocks = 4096;
    unique_fd const dir(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    BOOST_TEST(spaces::hold(dir.get(), "status", s).get() < 0);
    support::scratch here;
    unique_fd const at(::open(here.dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    { (void)unique_fd(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
    bool const known = file_system_of(at.get()) != file_system::other;
    BOOST_TEST((spaces::hold(at.get(), "f", s).get() >= 0) == known);
    BOOST_TEST(spaces::hold(at.get(), "none", s).get() < 0);
}

BOOST_AUTO_TEST_SUITE_END()
