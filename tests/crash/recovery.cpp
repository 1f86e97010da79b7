// SPDX-License-Identifier: Apache-2.0
#include "recovery.hpp"

#include "recorder.hpp"

#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/detail/data_file_proof.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

namespace crash {

namespace fs = std::filesystem;

namespace {

constexpr long hour = 3600;

cairn::byte_span bytes_of(const std::string& s) {
    return std::as_bytes(std::span(s.data(), s.size()));
}
std::string last_part(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

/// No two recoveries draw the same save id.
std::uint64_t new_seed() {
    static std::uint64_t last = 1'000'000;
    return ++last;
}

struct in_memory {
    const std::string& bytes;
    void read(std::uint64_t at, std::span<std::byte> into) const {
        std::memcpy(into.data(), bytes.data() + at, into.size());
    }
};

/// Whether a data file's name contains a save id, so that its bytes are not asked.
bool names_its_save(const std::string& name) {
    return !cairn::detail::id_in(name).empty();
}

/// The version that stands below a root. Never one of two versions.
support::whole load_below(const fs::path& root) {
    return support::load_whole(cairn::file_store(root / "runs"), "c");
}
const support::whole& whole_of(const checkpoint& c) {
    static std::map<std::string, support::whole> known;
    auto const it = known.find(c.metadata);
    if (it != known.end()) return it->second;
    support::scratch dir;
    image alone{{{place + ".metadata", c.metadata}}, {"runs", "runs/c"}};
    for (auto const& [name, bytes] : c.files) {
        for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
            alone.directories.insert(place + name.substr(0, slash));
        alone.files[place + name] = bytes;
    }
    write_image(alone, dir.dir);
    return known.emplace(c.metadata, load_below(dir.dir)).first->second;
}
void require_version(const fs::path& root, int version) {
    auto const w = load_below(root);
    if (support::only_number(w.tensors.at("replica")) != static_cast<float>(version) ||
        w.objects.at("step").as<int>() != version)
        throw wrong("what a later save has saved is not what loads");
}

}  // namespace

image later(image i, long seconds) {
    i.age = seconds;
    for (auto& [path, bytes] : i.files) {
        if (!cairn::detail::is_intent_name(last_part(path))) continue;
        try {
            auto intent = cairn::detail::save_intent::decode(bytes_of(bytes));
            intent.owner.process.boot = "before the crash";
            auto const made = intent.encode();
            bytes.assign(reinterpret_cast<const char*>(made.data()), made.size());
        } catch (const cairn::error&) {  // cut short
        }
    }
    return i;
}

std::string recovery_key(const image& left, const history& h, int standing) {
    auto const* const now = standing < 0 ? nullptr : &h.all[static_cast<std::size_t>(standing)];
    std::string key = std::to_string(standing);
    for (auto const& d : left.directories) key += "\n" + d;
    for (auto const& [path, bytes] : left.files) {
        key += "\n" + path + " ";
        auto const name = path.starts_with(place) ? path.substr(place.size()) : path;
        if (now != nullptr && now->files.count(name) != 0) continue;
        if (cairn::detail::owner_of_temporary(name) || names_its_save(name)) continue;
        in_memory file{bytes};
        if (name.front() == '.')
            key += bytes;
        else if (auto const id = cairn::detail::save_id_at_end(file, bytes.size()))
            key += *id;
    }
    return key;
}

void require_usable(const image& left, const history& h, int standing) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    write_image(later(left, hour), root);
    if (standing >= 0 && load_below(root) != whole_of(h.all[static_cast<std::size_t>(standing)]))
        throw wrong("what stands does not load as it was saved");
    save_below(root.string(), {.ranks = 1, .version = 8}, new_seed());
    require_version(root, 8);
}

recording collect(const image& left) {
    constexpr int ranks = 1, version = 9;
    auto r = record(later(left, 25 * hour), {{.ranks = ranks, .version = version}}, new_seed());
    auto const after = r.end.now();
    auto const& newest = r.checkpoints.all.back();
    for (auto const& file : after.files) {
        auto const& path = file.first;
        auto const name = path.starts_with(place) ? path.substr(place.size()) : path;
        if (name != ".metadata" && newest.files.count(name) == 0)
            throw wrong("a later save leaves '" + name + "'");
    }
    support::scratch dir;
    write_image(after, dir.dir);
    require_version(dir.dir, version);
    return r;
}

}  // namespace crash
