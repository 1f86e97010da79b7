// SPDX-License-Identifier: Apache-2.0
#include "support/scratch.hpp"

#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/prefixed.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(file)

namespace fs = std::filesystem;

namespace {

struct scratch : support::scratch {
    int n = 0;
    fs::path next() { return dir / ("place" + std::to_string(n++)); }
};

void put(cairn::file_store& s, const char* name) {
    auto h = s.create(name, 1);
    h.write(0, cairn::byte_vector(1));
    h.finish(true);
}
std::size_t entries(const fs::path& dir) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

/// The program is in another directory, for its lifetime.
class in_directory {
public:
    explicit in_directory(const fs::path& p) : before_(fs::current_path()) { fs::current_path(p); }
    in_directory(in_directory&&) = delete;
    ~in_directory() { fs::current_path(before_); }

private:
    fs::path before_;
};

/// A child has written it, and has ended; or goes on.
class other_publisher {
public:
    explicit other_publisher(const std::string& place) {
        int pipe[2];
        BOOST_REQUIRE(::pipe(pipe) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            auto const name = cairn::detail::temporary_name(cairn::detail::this_process());
            std::ofstream(place + "/" + name) << "x";
            (void)!::write(pipe[1], name.data(), name.size());
            ::close(pipe[1]);
            ::pause();
            ::_exit(0);
        }
        ::close(pipe[1]);
        char text[256];
        for (::ssize_t n = 0; (n = ::read(pipe[0], text, sizeof text)) > 0;)
            name_.append(text, static_cast<std::size_t>(n));
        ::close(pipe[0]);
    }
    other_publisher(other_publisher&&) = delete;
    ~other_publisher() { end(); }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    const std::string& name() const { return name_; }

private:
    ::pid_t pid_ = -1;
    std::string name_{};
};

}  // namespace

/// Over two mounts of one file system two processes of a host may hold the lock of a directory.
BOOST_AUTO_TEST_CASE(a_publisher_removes_the_temporary_files_of_ended_processes_alone) {
    scratch s;
    auto const place = s.next();
    fs::create_directories(place);
    other_publisher other(place.string());
    auto const write = [&](const std::string& name) { std::ofstream(place / name) << "x"; };
    std::string const id(32, 'a'), of_before = ".cairn-publish.ffffffff.";
    auto stranger = cairn::detail::this_process();
    stranger.boot = "of-another-host";
    stranger.run = std::string(32, 'd');
    auto const alien = cairn::detail::temporary_name(stranger);
    auto const old_alien = of_before + std::string(32, 'b');
    std::vector<std::string> const ours{other.name(), alien, old_alien, of_before + id};
    for (auto const& name : ours) write(name);
    for (auto const* name : {".cairn-publish.x.notes", ".metadata.tmp", ".cairn-publish.txt"})
        write(name);
    fs::last_write_time(place / old_alien,
                        fs::file_time_type::clock::now() - std::chrono::hours(25));
    cairn::file_store store(place);
    for (auto const& info : store.list())
        BOOST_TEST((std::find(ours.begin(), ours.end(), info.name) == ours.end()),
                   "a temporary file is no object");
    store.publish("m", cairn::byte_vector(3), std::nullopt);
    BOOST_TEST(!fs::exists(place / old_alien));
    for (auto const& name : {other.name(), alien, of_before + id})
        BOOST_TEST(fs::exists(place / name), "it may be at work");
    other.end();
    store.publish("m", cairn::byte_vector(3), std::nullopt);
    BOOST_TEST(!fs::exists(place / other.name()));
    BOOST_TEST(entries(place) == 6u);
    // This process has left it, as where the removal has failed.
    auto const left = cairn::detail::temporary_name(cairn::detail::this_process());
    write(left);
    {
        cairn::detail::temporary_file mine(place.string()), at_work(place.string());
        mine.write({}, false);
        mine.remove_stale();
        BOOST_TEST(!fs::exists(place / left));
        BOOST_TEST(entries(place) == 8u, "another thread is at work");
    }
    BOOST_TEST(entries(place) == 6u, "a temporary that was not renamed is removed");
}

/// Containers that see the host's `/proc` do not know their pid spaces, and may have equal pids;
/// two libraries of one process may have this code to themselves.
BOOST_AUTO_TEST_CASE(a_temporary_file_of_what_only_looks_like_this_process_stays) {
    scratch s;
    auto const place = s.next();
    auto const me = cairn::detail::this_process();
    auto library = me, container = me, before = me;
    library.run = me.run.substr(0, 16) + std::string(16, 'a');
    container.pid_space = container.started = 0;
    container.run = std::string(32, 'b');
    before.run = std::string(32, 'c');  // another program, which has executed this one
    fs::create_directories(place);
    auto const write = [&](const cairn::detail::process_identity& owner) {
        auto const name = cairn::detail::temporary_name(owner);
        BOOST_TEST((cairn::detail::owner_of_temporary(name) == owner));
        std::ofstream(place / name) << "x";
        return place / name;
    };
    auto const of_library = write(library), of_container = write(container),
               of_before = write(before);
    cairn::file_store(place).publish("m", cairn::byte_vector(3), std::nullopt);
    BOOST_TEST(fs::exists(of_library));
    BOOST_TEST(fs::exists(of_container));
    BOOST_TEST(!fs::exists(of_before));
}

/// A publisher was killed in a place that had nothing else.
BOOST_AUTO_TEST_CASE(a_place_is_removed_with_temporary_files_of_ended_processes_alone) {
    scratch s;
    cairn::file_store store(s.next());
    auto const place = fs::path(store.directory()) / "p";
    auto const me = cairn::detail::this_process();
    auto ended = me, stranger = me;
    ended.run = std::string(32, 'c');
    stranger.boot = "of-another-host";
    stranger.run = std::string(32, 'd');
    fs::create_directories(place);
    std::ofstream(place / cairn::detail::temporary_name(ended)) << "x";
    store.remove_place("p");
    BOOST_TEST(!fs::exists(place));
    fs::create_directories(place);
    std::ofstream(place / cairn::detail::temporary_name(stranger)) << "x";
    store.remove_place("p");
    BOOST_TEST(fs::exists(place));
}

BOOST_AUTO_TEST_CASE(directories_that_are_left_empty_go_with_a_file_that_is_gone_already) {
    scratch s;
    cairn::file_store store(s.next());
    fs::create_directories(fs::path(store.directory()) / "a");  // its own directory "b" is gone too
    store.remove("a/b/o");
    BOOST_TEST(fs::is_empty(store.directory()));
}

/// eCryptfs, which keeps names encrypted, allows 143 bytes.
BOOST_AUTO_TEST_CASE(names_of_temporary_files_are_short_enough_for_every_file_system) {
    cairn::detail::process_identity p;
    p.boot = std::string(36, 'b');
    p.pid_space = 4'294'967'295;
    p.pid = 4'194'304;
    p.started = 100'000'000'000;  // after 31 years
    p.run = std::string(32, 'c');
    auto const name = cairn::detail::temporary_name(p);
    BOOST_TEST(name.size() <= 143u);
    BOOST_TEST((cairn::detail::owner_of_temporary(name) == p));
    BOOST_TEST((cairn::detail::owner_of_temporary(name + std::string(16, 'a')) == p),
               "of an older version");
    for (auto const& other : {name + "a", name.substr(0, name.size() - 1)})
        BOOST_TEST(!cairn::detail::owner_of_temporary(other).has_value());
}

/// A server of NFS keeps something else as its time until the client sets it.
BOOST_AUTO_TEST_CASE(a_temporary_file_that_is_empty_is_as_old_as_its_last_change) {
    scratch s;
    auto const place = s.next();
    fs::create_directories(place);
    auto stranger = cairn::detail::this_process();
    stranger.boot = "of-another-host";
    stranger.run = std::string(32, 'd');
    auto const empty = place / cairn::detail::temporary_name(stranger);
    std::ofstream{empty};
    fs::last_write_time(empty, fs::file_time_type::clock::now() - std::chrono::hours(25));
    cairn::file_store(place).publish("m", cairn::byte_vector(3), std::nullopt);
    BOOST_TEST(fs::exists(empty));
}

/// As when a server was replaced in between, and the client asks the next one again.
BOOST_AUTO_TEST_CASE(a_rename_that_was_carried_out_already_is_no_failure) {
    scratch s;
    auto const place = s.next();
    fs::create_directories(place);
    cairn::detail::temporary_file mine(place.string());
    mine.write(cairn::byte_vector(3), false);
    fs::rename(fs::directory_iterator(place)->path(), place / "m");
    BOOST_CHECK_NO_THROW(mine.rename_to((place / "m").string()));
    BOOST_TEST(fs::file_size(place / "m") == 3u);
}

/// All that takes time has been done by then.
BOOST_AUTO_TEST_CASE(the_last_look_of_a_publisher_is_just_before_the_rename) {
    scratch s;
    auto const place = s.next();
    cairn::file_store store(place);
    cairn::any_store erased(store);
    cairn::prefixed_store<cairn::file_store> prefixed(store);
    store.publish("m", cairn::byte_vector(3), std::nullopt);
    auto const check = [&](auto& way) {
        int looks = 0;
        auto const look = [&] {
            ++looks;
            BOOST_TEST(fs::file_size(place / "m") == 3u);
            std::size_t written = 0;
            for (auto const& e : fs::directory_iterator(place))
                written += e.path().filename() != "m" && fs::file_size(e.path()) == 4;
            BOOST_TEST(written == 1u);
            throw cairn::error(cairn::errc::cancelled, {});
        };
        BOOST_CHECK_EXCEPTION(
            way.publish("m", cairn::byte_vector(4), std::nullopt, look), cairn::error,
            [](const auto& e) { return e.code() == make_error_code(cairn::errc::cancelled); });
        BOOST_TEST(looks == 1);
        BOOST_TEST(fs::file_size(place / "m") == 3u);
        BOOST_TEST(entries(place) == 1u);
    };
    check(store);
    check(erased);
    check(prefixed);
}

/// It may be one that the program was started without, and others print there.
BOOST_AUTO_TEST_CASE(no_file_gets_the_number_of_a_standard_stream) {
    scratch s;
    cairn::file_store store(s.next());
    int const kept = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    ::close(STDIN_FILENO);
    {
        auto h = store.create("o", 1);
        h.write(0, cairn::byte_vector(1));
        BOOST_TEST(::fcntl(STDIN_FILENO, F_GETFD) == -1);
        h.finish(true);
    }
    if (kept >= 0) {
        ::dup2(kept, STDIN_FILENO);
        ::close(kept);
    }
    BOOST_TEST(store.open("o").size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_temporary_file_that_was_removed_is_named) {
    scratch s;
    auto const place = s.next();
    fs::create_directories(place);
    cairn::detail::temporary_file mine(place.string());
    mine.write({}, false);
    for (auto const& e : fs::directory_iterator(place)) fs::remove(e.path());
    BOOST_CHECK_EXCEPTION(mine.rename_to((place / "m").string()), cairn::error,
                          [](const cairn::error& e) {
                              return std::string(e.what()).find("another process has removed it") !=
                                     std::string::npos;
                          });
}

/// Some file systems change the number of a file while it is there.
BOOST_AUTO_TEST_CASE(a_tag_is_that_of_the_bytes_and_the_time_not_of_the_number_of_a_file) {
    scratch s;
    cairn::file_store store(s.next());
    store.publish("m", cairn::byte_vector(100), std::nullopt);
    auto const file = fs::path(store.directory()) / "m",
               copy = fs::path(store.directory()) / "copy";
    auto const before = store.tag("m");
    fs::copy_file(file, copy);
    fs::last_write_time(copy, fs::last_write_time(file));
    fs::rename(copy, file);
    BOOST_TEST(store.tag("m").text == before.text);
}
BOOST_AUTO_TEST_CASE(a_file_that_has_another_number_when_it_is_finished_is_the_same) {
    scratch s;
    cairn::file_store store(s.next());
    for (std::size_t const size : {std::size_t{0}, std::size_t{10}, std::size_t{10'000}}) {
        cairn::byte_vector const bytes(size, std::byte{7});
        auto h = store.create("o", size);
        h.write(0, bytes);
        fs::copy_file(fs::path(store.directory()) / "o", fs::path(store.directory()) / "copy");
        fs::rename(fs::path(store.directory()) / "copy", fs::path(store.directory()) / "o");
        BOOST_CHECK_NO_THROW(h.finish(true));
        store.remove("o");
    }
    // Another job's, of the same size.
    auto h = store.create("o", 10);
    h.write(0, cairn::byte_vector(10, std::byte{1}));
    fs::remove(fs::path(store.directory()) / "o");
    std::ofstream(fs::path(store.directory()) / "o") << "0123456789";
    BOOST_CHECK_THROW(h.finish(true), cairn::error);
}

BOOST_AUTO_TEST_CASE(a_relative_place_stays_where_it_was_when_the_program_changes_its_directory) {
    scratch s;
    auto const first = s.next(), second = s.next();
    fs::create_directories(first);
    fs::create_directories(second);
    std::optional<cairn::file_store> named, unnamed;
    {
        in_directory const there(first);
        named.emplace("ckpt");
        unnamed.emplace();
    }
    in_directory const elsewhere(second);
    put(*named, "o");
    auto step = unnamed->at("step_1");
    put(step, "o");
    BOOST_TEST(fs::exists(first / "ckpt" / "o"));
    BOOST_TEST(fs::exists(first / "step_1" / "o"));
    BOOST_TEST(fs::is_empty(second));
}

BOOST_AUTO_TEST_CASE(a_url_is_not_taken_for_a_directory) {
    scratch s;
    in_directory const there(s.dir);
    auto const is_refused = [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::invalid_argument) &&
               e.context().found.find("key=") == std::string::npos &&
               e.context().remedy.find("cairn::s3_store") != std::string::npos;
    };
    cairn::file_store const store;
    for (std::string const url : {"s3://bucket/run", "S3://bucket", "https://host/a?key=1"}) {
        BOOST_CHECK_EXCEPTION((void)cairn::file_store(url), cairn::error, is_refused);
        BOOST_CHECK_EXCEPTION((void)store.at(url), cairn::error, is_refused);
    }
    for (std::string const path : {"a:/b", "://b", "./s3://a", "a b://c", "s3:"})
        BOOST_CHECK_NO_THROW((void)store.at(path));
    BOOST_TEST(fs::is_empty(s.dir));
}

BOOST_AUTO_TEST_CASE(a_store_is_made_in_a_directory_that_was_removed) {
    scratch s;
    auto const gone = s.next(), place = s.next();
    fs::create_directories(gone);
    in_directory const there(gone);
    fs::remove(gone);
    auto store = cairn::file_store().at(place.string());
    put(store, "o");
    BOOST_TEST(fs::exists(place / "o"));
    cairn::file_store nowhere;
    BOOST_CHECK_THROW(put(nowhere, "o"), cairn::error);
}

BOOST_AUTO_TEST_CASE(directories_are_those_that_links_lead_to) {
    scratch s;
    auto const real = s.next(), beside = s.next();
    fs::create_directories(real / "deep");
    fs::create_directories(beside);
    fs::create_directory_symlink(real / "deep", beside / "link");
    cairn::file_store store(beside / "link" / ".." / "ckpt");
    put(store, "o");
    BOOST_TEST(fs::exists(real / "ckpt" / "o"));
    BOOST_TEST(entries(beside) == 1u, "a stray tree");
    BOOST_TEST(cairn::detail::parent_of(store.directory()) == fs::canonical(real));
}

BOOST_AUTO_TEST_SUITE_END()
