// SPDX-License-Identifier: Apache-2.0
#include "support/system_calls.hpp"

#include "recorder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace crash {

namespace fs = std::filesystem;

namespace {

thread_local int host_of_thread = 0;

std::string above(const std::string& path) {
    auto const slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}
std::string last_part(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

on_host::on_host(int host) : before_(std::exchange(host_of_thread, host)) {}
on_host::~on_host() {
    host_of_thread = before_;
}
int on_host::current() {
    return host_of_thread;
}

recorder::recorder(fs::path root) : root_(std::move(root)), beginning_(read_image(root_)) {
    numbers_[""] = 0;
    // As `disk` numbers them.
    for (auto const& d : beginning_.directories) numbers_[d] = next_++;
    for (auto const& [f, bytes] : beginning_.files) numbers_[f] = next_++;
    auto& calls = support::system_calls::get();
    calls.watch(root_.string());
    calls.before = [this](std::string_view what, const std::string&, std::uint64_t) {
        bool const counts = support::can_change(what) && before;
        return counts && !before(on_host::current()) ? EIO : 0;
    };
    calls.after = [this](const support::system_call& c) {
        using enum operation::kind;
        std::lock_guard const lock(m_);
        auto const path = relative(c.path);
        operation o{sync};
        o.host = on_host::current();
        o.path = path;
        o.name = last_part(path);
        o.directory = number(above(path)).value_or(-1);
        if (c.what == "mkdir" || c.what == "create") {
            o.what = c.what == "mkdir" ? make_directory : create;
            o.file = numbers_[path] = next_++;
            return add(std::move(o));
        }
        if (c.what == "rename" || c.what == "exchange") {
            auto const from = relative(c.from);
            o.what = c.what == "rename" ? rename : exchange;
            o.file = numbers_.at(from);
            o.new_directory = o.directory;
            o.new_name = o.name;
            o.directory = number(above(from)).value();
            o.name = last_part(from);
            o.path = from;
            auto moved = taken(from);
            if (o.what == exchange)
                for (auto& [rest, number] : taken(path)) numbers_[from + rest] = number;
            for (auto& [rest, number] : moved) numbers_[path + rest] = number;
            return add(std::move(o));
        }
        if (c.what == "remove") {
            o.what = remove;
            o.file = number(path).value_or(-1);
            numbers_.erase(path);
            return add(std::move(o));
        }
        // What was removed while it was open changes nothing that can be found.
        auto const file = number(path);
        if (!file) return;
        o.file = *file;
        o.at = c.at;
        if (c.what == "write") {
            o.what = write;
            o.bytes = std::string(c.bytes);
            o.direct = c.direct;
        } else if (c.what == "reserve" || c.what == "resize") {
            o.what = resize;
            o.grow_only = c.what == "reserve";
        } else if (c.what == "sync") {
            o.is_directory = fs::is_directory(c.path);
        } else {
            return;  // a start of writing back promises nothing
        }
        add(std::move(o));
    };
}

recorder::~recorder() {
    auto& calls = support::system_calls::get();
    calls.watch({});
    calls.before = nullptr;
    calls.after = nullptr;
}

void recorder::promise() {
    operation o{operation::kind::promise};
    o.host = on_host::current();
    add(std::move(o));
}

void recorder::add(operation o) {
    all_.push_back(std::move(o));
    if (after) after(all_.back());
}

/// The numbers of what has this path or begins with it, which it then no longer has.
std::map<std::string, int> recorder::taken(const std::string& path) {
    std::map<std::string, int> all;
    std::erase_if(numbers_, [&](auto const& x) {
        auto const& name = x.first;
        bool const is_here =
            name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '/');
        if (is_here) all.emplace(name.substr(path.size()), x.second);
        return is_here;
    });
    return all;
}
std::optional<int> recorder::number(const std::string& path) const {
    auto const it = numbers_.find(path);
    if (it == numbers_.end()) return {};
    return it->second;
}
std::string recorder::relative(const std::string& path) const {
    auto const& root = root_.native();
    return path.size() <= root.size() ? std::string() : path.substr(root.size() + 1);
}

image read_image(const fs::path& root) {
    image i;
    auto const skip = root.native().size() + 1;
    for (auto const& e : fs::recursive_directory_iterator(root)) {
        auto const name = e.path().native().substr(skip);
        if (e.is_directory()) {
            i.directories.insert(name);
            continue;
        }
        std::ifstream file(e.path(), std::ios::binary);
        i.files[name] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return i;
}

void write_image(const image& i, const fs::path& root) {
    for (auto const& d : i.directories) fs::create_directory(root / d);
    for (auto const& [name, bytes] : i.files) {
        auto const path = (root / name).string();
        std::ofstream file(path, std::ios::binary);
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        file.close();
        if (!file) throw std::runtime_error("cannot write " + path);
        if (i.age == 0) continue;
        struct ::timespec const then{::time(nullptr) - i.age, 0};
        struct ::timespec const times[] = {then, then};
        if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0)
            throw std::runtime_error("cannot age " + path);
    }
}

}  // namespace crash
