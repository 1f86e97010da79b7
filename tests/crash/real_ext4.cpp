// SPDX-License-Identifier: Apache-2.0
#include "real_ext4.hpp"

#include "recorder.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace crash {

namespace fs = std::filesystem;

namespace {

void shell(const std::string& command) {
    if (std::system((command + " >/dev/null 2>&1").c_str()) != 0)
        throw std::runtime_error("`" + command.substr(0, command.find(' ')) + "` fails here");
}
[[noreturn]] void refused(const char* what) {
    throw std::runtime_error(std::string(what) + ": " + std::system_category().message(errno));
}
void sync_all(const fs::path& mounted) {
    int const fd = ::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || ::syncfs(fd) != 0) refused("cannot sync it");
    ::close(fd);
}

}  // namespace

real_ext4::real_ext4() {
    if (::geteuid() != 0) throw std::runtime_error("only root may mount");
    if (::unshare(CLONE_NEWNS) != 0) refused("no mount namespace");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        refused("no private mounts");
    std::string name = (fs::temp_directory_path() / "cairn-ext4-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) refused("no directory");
    dir_ = fs::canonical(name);
    try {
        fs::create_directory(dir_ / "mounted");
        fs::create_directory(dir_ / "cut");
        auto const file = (dir_ / "disk").string();
        shell("truncate -s 16M '" + file + "'");
        shell("mkfs.ext4 -q -b 1024 '" + file + "'");
        // Its own thread would write to the disk while that is copied.
        shell("mount -o loop,commit=3600 '" + file + "' '" + (dir_ / "mounted").string() + "'");
    } catch (...) {
        fs::remove_all(dir_);
        throw;
    }
}

real_ext4::~real_ext4() {
    ::umount((dir_ / "mounted").c_str());
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
}

void real_ext4::cut(std::size_t number) {
    fs::copy_file(dir_ / "disk", dir_ / std::to_string(number),
                  fs::copy_options::overwrite_existing);
}

image real_ext4::found_in(std::size_t number) {
    auto const file = dir_ / std::to_string(number);
    auto const at = dir_ / "cut";
    shell("mount -o loop '" + file.string() + "' '" + at.string() + "'");
    image found;
    try {
        found = read_image(at / "root");
    } catch (...) {
        ::umount(at.c_str());
        throw;
    }
    if (::umount(at.c_str()) != 0) refused("cannot unmount it");
    fs::remove(file);
    return found;
}

real_ext4::result real_ext4::check(const scenario& s, std::uint64_t seed) {
    auto const root = dir_ / "mounted" / "root";
    fs::remove_all(root);
    fs::create_directory(root);
    write_image(s.before, root);
    sync_all(root);
    // Whether the system has written some of it back by then is a matter of chance.
    std::mt19937_64 random(seed);
    std::size_t cuts = 0;
    auto const r = record_at(root, s.jobs, seed, [&] {
        cut(cuts++);
        if (random() % 6 == 0) sync_all(root);
    });
    disk d(r.beginning);
    int promised = r.checkpoints.begins_empty ? -1 : 0, renamed = promised;
    std::set<std::uint64_t> distinct;
    for (std::size_t i = 0; i < r.all.size(); ++i) {
        auto const& o = r.all[i];
        d.apply(o);
        if (o.what == operation::kind::rename && o.new_name == ".metadata") ++renamed;
        if (o.what == operation::kind::promise) promised = renamed;
        auto const found = found_in(i);
        distinct.insert(found.hash());
        std::string why;
        if (!d.allows(found, why))
            throw wrong("ext4 leaves what the model does not allow: " + why + "\n    after call " +
                        std::to_string(i) + ", " + o.text());
        (void)r.checkpoints.standing(found, promised);
    }
    return {r.all.size(), distinct.size()};
}

}  // namespace crash
