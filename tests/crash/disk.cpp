// SPDX-License-Identifier: Apache-2.0
#include "disk.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

namespace crash {

std::uint64_t image::hash() const {
    std::uint64_t h = 0x9e3779b97f4a7c15;
    auto const mix = [&h](std::string_view s) {
        h = (h ^ std::hash<std::string_view>{}(s)) * 0xbf58476d1ce4e5b9;
        h ^= h >> 29;
    };
    for (auto const& d : directories) mix(d);
    for (auto const& [name, bytes] : files) {
        mix(name);
        mix(bytes);
    }
    return h;
}

namespace {

/// The file's entry in its directory: what a path is made of.
std::pair<std::string, std::string> split(const std::string& path) {
    auto const slash = path.rfind('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

disk::disk() {
    nodes_.emplace_back();
    nodes_[0].is_directory = true;
}

disk::disk(const image& found) : disk() {
    std::map<std::string, int> numbers{{"", 0}};
    auto const add = [&](const std::string& path, bool directory) -> node& {
        auto const [above, name] = split(path);
        auto const n = static_cast<int>(nodes_.size());
        nodes_.emplace_back();
        nodes_[static_cast<std::size_t>(numbers.at(above))].entries[name] = {{n, every_host}};
        numbers[path] = n;
        nodes_.back().is_directory = directory;
        return nodes_.back();
    };
    for (auto const& d : found.directories) add(d, true);
    for (auto const& [path, bytes] : found.files) {
        auto& n = add(path, false);
        n.size = {{bytes.size(), every_host}};
        for (std::uint64_t p = 0; p * page < bytes.size(); ++p) {
            auto one = bytes.substr(p * page, page);
            one.resize(page);
            n.pages[p] = {{std::make_shared<const std::string>(std::move(one)), every_host}};
        }
    }
}

disk::node& disk::at(int file) {
    auto const i = static_cast<std::size_t>(file);
    if (i >= nodes_.size()) nodes_.resize(i + 1);
    return nodes_[i];
}

void disk::apply(const operation& o) {
    using enum operation::kind;
    auto const set_entry = [&](int directory, const std::string& name, int to) {
        auto& all = at(directory).entries[name];
        if (all.empty()) all.push_back({-1, every_host});
        all.push_back({to, o.host});
    };
    switch (o.what) {
        case make_directory:
        case create:
            at(o.file).is_directory = o.what == make_directory;
            return set_entry(o.directory, o.name, o.file);
        case write: return this->write(at(o.file), o);
        case resize: {
            auto& n = at(o.file);
            if (!o.grow_only || n.size.back().value < o.at) n.size.push_back({o.at, o.host});
            return;
        }
        case sync: return make_durable(at(o.file));
        case rename:
            set_entry(o.new_directory, o.new_name, o.file);
            return set_entry(o.directory, o.name, -1);
        case exchange: {
            int const other = at(o.new_directory).entries.at(o.new_name).back().value;
            set_entry(o.new_directory, o.new_name, o.file);
            return set_entry(o.directory, o.name, other);
        }
        case remove: return set_entry(o.directory, o.name, -1);
        case promise: return;
    }
}

void disk::write(node& n, const operation& o) {
    auto const end = o.at + o.bytes.size();
    for (auto p = o.at / page; p * page < end; ++p) {
        auto& all = n.pages[p];
        if (all.empty())
            all.push_back({std::make_shared<const std::string>(page, '\0'), every_host});
        auto bytes = *all.back().value;
        auto const from = std::max(o.at, p * page);
        auto const to = std::min(end, (p + 1) * page);
        bytes.replace(from - p * page, to - from, o.bytes, from - o.at, to - from);
        all.push_back({std::make_shared<const std::string>(std::move(bytes)), o.host});
    }
    if (n.size.back().value < end) n.size.push_back({end, o.host});
}

void disk::make_durable(node& n) {
    auto const last_only = [](auto& all) { all.erase(all.begin(), all.end() - 1); };
    for (auto& [p, all] : n.pages) last_only(all);
    last_only(n.size);
    for (auto& [name, all] : n.entries) last_only(all);
}

disk::units disk::open_after(int host) const {
    units out;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        auto const& n = nodes_[i];
        auto const add = [&](unit::kind what, std::uint64_t at, const std::string& name,
                             const auto& all) {
            auto const highest = all.size() - 1;
            auto lowest = highest;
            while (lowest > 0 && (host == every_host || all[lowest].host == host)) --lowest;
            if (lowest != highest)
                out.push_back({what, static_cast<int>(i), at, name, lowest, highest});
        };
        for (auto const& [p, all] : n.pages) add(unit::kind::page, p, {}, all);
        add(unit::kind::size, 0, {}, n.size);
        for (auto const& [name, all] : n.entries) add(unit::kind::entry, 0, name, all);
    }
    return out;
}

/// One choice of a version for everything.
class disk::view {
public:
    view(const disk& d, const units& open, const std::vector<std::size_t>& chosen) : d_(d) {
        for (std::size_t i = 0; i < open.size(); ++i) {
            auto const& u = open[i];
            chosen_.push_back({u.file, u.what, u.at, &u.name, chosen[i]});
        }
    }
    image build() {
        directory(d_.nodes_[0], {});
        return std::move(out_);
    }

private:
    struct choice {
        int file;
        unit::kind what;
        std::uint64_t at;
        const std::string* name;
        std::size_t version;
    };
    /// `open_after` gives them by file, kind, position and name.
    template <class T>
    const T& of(int file, unit::kind what, std::uint64_t p, const std::string& name,
                const versions<T>& all) const {
        if (all.size() == 1) return all[0].value;
        auto const it =
            std::lower_bound(chosen_.begin(), chosen_.end(), 0, [&](const choice& c, int) {
                return std::tie(c.file, c.what, c.at, *c.name) < std::tie(file, what, p, name);
            });
        bool const found = it != chosen_.end() && it->file == file && it->what == what &&
                           it->at == p && *it->name == name;
        return all[found ? it->version : all.size() - 1].value;
    }
    void directory(const node& n, const std::string& path) {
        auto const number = static_cast<int>(&n - d_.nodes_.data());
        for (auto const& [name, all] : n.entries) {
            int const to = of(number, unit::kind::entry, 0, name, all);
            if (to < 0) continue;
            auto const& child = d_.nodes_[static_cast<std::size_t>(to)];
            auto const full = path.empty() ? name : path + "/" + name;
            if (child.is_directory) {
                out_.directories.insert(full);
                directory(child, full);
            } else {
                out_.files.emplace(full, bytes(child, to));
            }
        }
    }
    std::string bytes(const node& n, int number) const {
        static const std::string none;
        std::string s(of(number, unit::kind::size, 0, none, n.size), '\0');
        for (auto const& [p, all] : n.pages) {
            if (p * page >= s.size()) break;
            auto const& from = *of(number, unit::kind::page, p, none, all);
            auto const length = std::min<std::uint64_t>(page, s.size() - p * page);
            s.replace(p * page, length, from, 0, length);
        }
        return s;
    }

    const disk& d_;
    std::vector<choice> chosen_{};
    image out_{};
};

image disk::after_crash(const units& open, const std::vector<std::size_t>& chosen) const {
    return view(*this, open, chosen).build();
}
image disk::now() const {
    return view(*this, {}, {}).build();
}

void disk::crash(const units& open, const std::vector<std::size_t>& chosen) {
    for (std::size_t i = 0; i < open.size(); ++i) {
        auto& n = at(open[i].file);
        auto const cut = [&](auto& all) {
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(chosen[i]) + 1, all.end());
        };
        switch (open[i].what) {
            case unit::kind::page: cut(n.pages.at(open[i].at)); break;
            case unit::kind::size: cut(n.size); break;
            case unit::kind::entry: cut(n.entries.at(open[i].name)); break;
        }
    }
}

bool disk::allows(const image& found, std::string& why) const {
    return allows_directory(nodes_[0], {}, found, why);
}

bool disk::allows_file(const node& n, const std::string& bytes) const {
    if (std::none_of(n.size.begin(), n.size.end(),
                     [&](auto& v) { return v.value == bytes.size(); }))
        return false;
    for (std::uint64_t p = 0; p * page < bytes.size(); ++p) {
        auto const there = std::string_view(bytes).substr(p * page, page);
        auto const is = [&](std::string_view v) { return v.substr(0, there.size()) == there; };
        auto const it = n.pages.find(p);
        static const std::string zeros(page, '\0');
        if (it == n.pages.end() ? !is(zeros)
                                : std::none_of(it->second.begin(), it->second.end(),
                                               [&](auto& v) { return is(*v.value); }))
            return false;
    }
    return true;
}

bool disk::allows_directory(const node& n, const std::string& path, const image& found,
                            std::string& why) const {
    std::set<std::string> there;
    auto const below = [&](const std::string& full) {
        auto const [above, name] = split(full);
        if (above == path) there.insert(name);
    };
    for (auto const& d : found.directories) below(d);
    for (auto const& [f, bytes] : found.files) below(f);
    for (auto const& name : there)
        if (n.entries.count(name) == 0) return why = "an entry of no operation: " + name, false;
    for (auto const& [name, all] : n.entries) {
        auto const full = path.empty() ? name : path + "/" + name;
        bool const file = found.files.count(full) != 0;
        bool const some = file || found.directories.count(full) != 0;
        bool possible = false;
        why = "no version of " + full + " is like this";
        for (auto const& v : all) {
            if (v.value < 0) {
                possible = possible || !some;
                continue;
            }
            auto const& child = nodes_[static_cast<std::size_t>(v.value)];
            if (!some || child.is_directory == file) continue;
            possible = possible || (file ? allows_file(child, found.files.at(full))
                                         : allows_directory(child, full, found, why));
        }
        if (!possible) return false;
    }
    why.clear();
    return true;
}

}  // namespace crash
