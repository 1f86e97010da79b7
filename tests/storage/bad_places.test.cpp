// SPDX-License-Identifier: Apache-2.0
// A full disk, a directory without permission, two jobs at once: what stood there stays, and the
// error names rank and file.
#include "support/sanitized.hpp"
#include "support/scratch.hpp"
#include "support/small_store.hpp"
#include "support/whole.hpp"

#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(bad_places)

namespace fs = std::filesystem;

namespace {

/// A directory that others may look into: a test becomes somebody else.
struct open_scratch : support::scratch {
    open_scratch() { fs::permissions(dir, fs::perms(0755)); }
    std::string operator/(const char* name) const { return (dir / name).string(); }
};

/// Two ranks save `elements` numbers of one value each, and a step.
template <class Store>
void save_value(Store base, const std::string& id, float v, std::size_t elements = 64) {
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> w(elements, v);
        auto const n = static_cast<std::int64_t>(elements);
        cairn::state_dict sd{
            {"w",
             cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {n}, w.data()), {2 * n},
                                  cairn::device_mesh::line(2), {cairn::shard_along{0}}, me.rank())},
            {"step", static_cast<int>(v)}};
        auto store = base;
        cairn::save(sd, id, me, store);
    });
}

/// The value of a checkpoint that is whole and of one save.
template <class Store>
float loaded(Store store, const std::string& id) {
    support::whole const w = support::load_whole(store, id);
    auto const& bytes = w.tensors.at("w").bytes;
    std::vector<float> all(bytes.size() / sizeof(float));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    for (auto f : all)
        if (f != all[0]) throw std::runtime_error("parts of two saves");
    if (w.objects.at("step").as<int>() != static_cast<int>(all[0]))
        throw std::runtime_error("the step of another save");
    return all[0];
}

std::map<std::string, std::string> files_below(const std::string& dir) {
    std::map<std::string, std::string> out;
    for (auto const& e : fs::recursive_directory_iterator(dir)) {
        if (!e.is_regular_file()) continue;
        std::ifstream f(e.path(), std::ios::binary);
        out[e.path().string()] = {std::istreambuf_iterator<char>(f), {}};
    }
    return out;
}

/// What an operation threw, or nothing.
std::string failure(const std::function<void()>& f) {
    try {
        f();
        return {};
    } catch (const cairn::error& e) {
        return e.what();
    }
}

constexpr int skipped = 77;

void require(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

/// Runs a test in a process of its own, which may give up rights or mount things.
/// @return Its exit status: 0, 1, or `skipped`.
int in_child(const std::function<int()>& f) {
    std::cout.flush();
    auto const pid = ::fork();
    BOOST_REQUIRE(pid >= 0);
    if (pid == 0) {
        int code = 1;
        try {
            code = f();
        } catch (const std::exception& e) {
            std::cout << "    " << e.what() << '\n';
        }
        std::cout.flush();
        ::_exit(code);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// Runs a test in a process of its own that has a small file system in memory.
/// @param limits  Of `mount`.
int with_small_disk(const std::string& at, const std::string& limits,
                    const std::function<void()>& f) {
    fs::create_directory(at);
    return in_child([&] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", at.c_str(), "tmpfs", 0, limits.c_str()) != 0) {
            std::cout << "    skipped: no right to mount a small file system ("
                      << std::strerror(errno) << ")\n";
            return skipped;
        }
        f();
        return 0;
    });
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_disk_that_fills_at_any_byte_keeps_the_old_checkpoint) {
    std::int64_t needed = 0;
    {
        cairn::memory_store store;
        save_value(store, "c", 1);
        constexpr std::int64_t plenty = std::int64_t{1} << 30;
        support::small_store<cairn::memory_store> roomy(store, plenty);
        save_value(roomy, "c", 2);
        needed = plenty - roomy.room();
    }
    BOOST_TEST(needed > 5000);
    constexpr int stride = support::stride_if_sanitized(5);
    int refused = 0;
    for (std::int64_t room = 0; room < needed; room += 97 * stride) {
        BOOST_TEST_CONTEXT(room << " of " << needed << " bytes") {
            cairn::memory_store store;
            save_value(store, "c", 1);
            auto const before = store.at("c").list().size();
            support::small_store<cairn::memory_store> small(store, room);
            auto const said = failure([&] { save_value(small, "c", 2); });
            BOOST_TEST(contains(said, "No space left on device"), said);
            BOOST_TEST(contains(said, "rank "), said);
            BOOST_TEST((contains(said, ".distcp") || contains(said, ".metadata") ||
                        contains(said, ".saving.")),
                       said);
            BOOST_TEST(loaded(store, "c") == 1.0f);
            BOOST_TEST(store.at("c").list().size() == before);
            ++refused;
            save_value(store, "c", 3);
            BOOST_TEST(loaded(store, "c") == 3.0f);
        }
    }
    BOOST_TEST(refused > 50 / stride);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_named_in_the_error_and_loses_nothing) {
    open_scratch const dir;
    auto const mounted = dir / "disk";
    auto const code = with_small_disk(mounted, "size=1m", [&] {
        std::ofstream(mounted + "/notes.txt") << "mine";
        auto const id = mounted + "/c";
        save_value(cairn::file_store(), id, 1, 16384);
        auto const before = files_below(mounted);
        auto const said =
            failure([&] { save_value(cairn::file_store(), id, 2, std::size_t{1} << 18); });
        require(contains(said, "No space left on device"), "no word of the full disk: " + said);
        require(contains(said, "rank ") && contains(said, ".distcp"), "no rank or file: " + said);
        require(loaded(cairn::file_store(), id) == 1.0f, "the old checkpoint is gone");
        require(files_below(mounted) == before, "files were left or lost");
        save_value(cairn::file_store(), id, 3, 16384);
        require(loaded(cairn::file_store(), id) == 3.0f, "a save that fits fails");
        std::cout << "    a tmpfs of 1 MiB was full\n";
    });
    BOOST_TEST((code == 0 || code == skipped), "exit " << code);
}

/// The space of removed files comes back a moment later.
BOOST_AUTO_TEST_CASE(a_disk_that_a_killed_save_has_filled_to_the_last_byte_or_inode_is_saved_to) {
    for (auto const* limits : {"size=8m", "size=64m,nr_inodes=24"}) {
        open_scratch const dir;
        auto const mounted = dir / "disk", id = mounted + "/c";
        auto const code = with_small_disk(mounted, limits, [&] {
            save_value(cairn::file_store(), id, 1);
            cairn::detail::save_intent killed;
            killed.save_id = std::string(32, 'a');
            killed.owner = cairn::detail::record_owner::this_one();
            for (int i = 0; i < 64; ++i)
                killed.names.push_back("__" + std::to_string(i) + "_0." + killed.save_id +
                                       ".distcp");
            cairn::file_store(id).publish(".saving." + killed.save_id, killed.encode(),
                                          std::nullopt);
            std::string const mib(std::size_t{1} << 20, 'x');
            for (auto const& name : killed.names) {
                auto const file = id + "/" + name;
                if ((std::ofstream(file) << mib).flush()) continue;
                // The space of a smaller one comes back at once.
                if (fs::exists(file)) fs::rename(file, mounted + "/rest");
                break;
            }
            struct ::statvfs v {};
            require(::statvfs(id.c_str(), &v) == 0 && (v.f_bavail == 0 || v.f_ffree == 0),
                    "the disk is not full");
            cairn::detail::removed_space::of_process().set_pause(std::chrono::seconds(2));
            save_value(cairn::file_store(), id, 2);
            require(loaded(cairn::file_store(), id) == 2.0f, "it is not what was saved");
            save_value(cairn::file_store(), id, 3);
            require(files_below(id).size() == 3, "the killed save's intent stays");
        });
        BOOST_TEST((code == 0 || code == skipped), "exit " << code);
    }
}

BOOST_AUTO_TEST_CASE(missing_permissions_are_named_in_the_error) {
    open_scratch const dir;
    auto const locked = dir / "locked", old = dir / "old";
    fs::create_directory(locked);
    fs::permissions(locked, fs::perms(0555));
    save_value(cairn::file_store(), old, 1);
    auto const secret = dir / "secret";
    save_value(cairn::file_store(), secret, 1);
    auto const before = files_below(old);
    fs::permissions(old, fs::perms(0555));
    fs::permissions(fs::path(secret) / ".metadata", fs::perms(0));
    auto const code = in_child([&] {
        if (::geteuid() == 0) {
            // Root may write anywhere: be somebody else.
            if (::setegid(65534) != 0 || ::seteuid(65534) != 0) {
                std::cout << "    skipped: root writes anywhere and cannot become somebody else ("
                          << std::strerror(errno) << ")\n";
                return skipped;
            }
        }
        auto said = failure([&] { save_value(cairn::file_store(), locked + "/c", 2); });
        require(contains(said, "Permission denied") && contains(said, locked) &&
                    contains(said, "rank "),
                "a locked parent: " + said);
        said = failure([&] { save_value(cairn::file_store(), old, 2); });
        require(
            contains(said, "Permission denied") && contains(said, old) && contains(said, "rank "),
            "a locked checkpoint: " + said);
        require(loaded(cairn::file_store(), old) == 1.0f, "it can still be read");
        said = failure([&] { (void)loaded(cairn::file_store(), secret); });
        require(contains(said, "Permission denied") && contains(said, secret + "/.metadata"),
                "a secret .metadata: " + said);
        return 0;
    });
    fs::permissions(old, fs::perms(0755));
    BOOST_TEST((code == 0 || code == skipped), "exit " << code);
    BOOST_TEST((files_below(old) == before));
    BOOST_TEST(fs::is_empty(locked));
}

/// A place below a file, below a link to nowhere, or where the system makes no directories.
BOOST_AUTO_TEST_CASE(what_is_in_the_way_of_a_directory_is_named) {
    open_scratch const dir;
    auto const file = dir / "file", link = dir / "link", nowhere = dir / "nowhere";
    std::ofstream(file) << "not a directory";
    fs::create_symlink(nowhere, link);
    struct place {
        std::string id, culprit;
    };
    for (auto const& [id, culprit] :
         {place{file + "/c", file}, place{file + "/a/c", file}, place{file, file},
          place{link + "/c", link}, place{link, link}, place{"/proc/cairn/c", "/proc/cairn"}}) {
        auto const said = failure([&, id = id] { save_value(cairn::file_store(), id, 1); });
        BOOST_TEST(contains(said, "'" + id + "': storage failed"), said);
        BOOST_TEST(contains(said, "cannot make the directory"), said);
        BOOST_TEST(!contains(said, "found cannot"), said);
        BOOST_TEST(contains(said, "'" + culprit + "'"), said);
        BOOST_TEST(contains(said, "choose another place"), said);
        BOOST_TEST(contains(said, "rank "), said);
        BOOST_TEST(!contains(said, "no checkpoint"), said);
    }
    BOOST_TEST(!fs::exists(nowhere));
    BOOST_TEST(fs::file_size(file) == 15u);
}

/// Each round two jobs of two ranks save to one directory at the same moment.
BOOST_AUTO_TEST_CASE(two_jobs_at_once_leave_one_whole_checkpoint_and_strangers_alone) {
    open_scratch const dir;
    auto const id = dir / "c";
    fs::create_directories(fs::path(id) / "logs");
    std::map<std::string, std::string> strangers;
    for (auto const* name : {"notes.txt", "logs/a.log", "__9_9.distcp", ".hidden", "model.pt"}) {
        std::ofstream(fs::path(id) / name) << "not yours: " << name;
        strangers[(fs::path(id) / name).string()] = std::string("not yours: ") + name;
    }
    int both = 0, one = 0;
    for (int round = 0; round < 25; ++round) {
        BOOST_TEST_CONTEXT("round " << round) {
            std::string said[2];
            std::vector<std::thread> jobs;
            for (int job = 0; job < 2; ++job) {
                jobs.emplace_back([&, job] {
                    said[job] = failure([&] {
                        save_value(cairn::file_store(), id, static_cast<float>(2 * round + job));
                    });
                });
            }
            for (auto& j : jobs) j.join();
            BOOST_TEST((said[0].empty() || said[1].empty()), said[0] + " / " + said[1]);
            for (auto const& s : said) BOOST_TEST((s.empty() || contains(s, "another save")), s);
            auto const v = static_cast<int>(loaded(cairn::file_store(), id));
            BOOST_REQUIRE((v == 2 * round || v == 2 * round + 1));
            BOOST_TEST(said[v - 2 * round].empty(), "the job that failed is what stands there");
            (said[0].empty() && said[1].empty() ? both : one)++;
        }
    }
    std::cout << "    two jobs at once: both one after the other " << both << " times, one refused "
              << one << " times\n";
    save_value(cairn::file_store(), id, 7);
    auto const after = files_below(id);
    for (auto const& [name, content] : strangers)
        BOOST_TEST((after.count(name) == 1 && after.at(name) == content), name);
    // Two data files, the metadata, and what is not ours: no leftovers of 51 saves.
    std::string names;
    for (auto const& [name, content] : after) names += name.substr(id.size()) + " ";
    BOOST_TEST(after.size() == strangers.size() + 3, names);
}

BOOST_AUTO_TEST_SUITE_END()
