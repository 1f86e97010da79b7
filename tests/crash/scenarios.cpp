// SPDX-License-Identifier: Apache-2.0
#include "scenarios.hpp"

#include "recorder.hpp"
#include "recovery.hpp"

#include <cstddef>
#include <filesystem>

namespace crash {

namespace {

constexpr long day = 24 * 3600;

image written_by_torch() {
    image i{{}, {"runs", "runs/c"}};
    auto const from = std::filesystem::path(CAIRN_GOLDEN) / "torch-2.14.1" /
                      "fsdp1_linear_2_ranks" / "checkpoint";
    for (auto& [name, bytes] : read_image(from).files) i.files[place + name] = bytes;
    return i;
}

/// A checkpoint, and what a save over it has left that was killed a day ago.
/// @param committed  It is the new checkpoint that stands; the old one was not removed.
image with_leftovers(bool committed) {
    auto const r = record(saved({.version = 1}), {{.version = 5}}, 600'000);
    disk d(r.beginning);
    for (auto const& o : r.all) {
        bool const commit = o.what == operation::kind::rename && o.new_name == ".metadata";
        if (commit && !committed) break;
        d.apply(o);
        if (commit) break;
    }
    return later(d.now(), day);
}

}  // namespace

std::vector<scenario> scenario::all() {
    std::vector<scenario> out;
    for (int ranks : {2, 3}) {
        auto const n = "/" + std::to_string(ranks);
        saving const job{.ranks = ranks};
        auto own = job;
        own.names_of_its_own = true;
        auto direct = job;
        direct.direct = true;
        direct.columns = 2048;  // of two blocks
        auto own_first = own;
        own_first.version = 1;
        out.push_back({"fresh" + n, {}, {job}});
        out.push_back({"overwrite" + n, saved({.ranks = ranks, .version = 1}), {job}});
        out.push_back({"torch" + n, written_by_torch(), {job}});
        out.push_back({"uncommitted" + n, with_leftovers(false), {job}});
        out.push_back({"unswept" + n, with_leftovers(true), {job}});
        out.push_back({"direct" + n, saved({.ranks = ranks, .version = 1}), {direct}});
        out.push_back({"names" + n, {}, {own}});
        out.push_back({"renames" + n, saved(own_first), {own}});
    }
    saving const one{.ranks = 2, .version = 2, .first_host = 0},
        other{.ranks = 2, .version = 3, .first_host = 10};
    out.push_back({"jobs-fresh/2", {}, {one, other}});
    out.push_back({"jobs-overwrite/2", saved({.version = 1}), {one, other}});
    return out;
}

scenario scenario::named(const std::string& name) {
    for (auto& s : all())
        if (s.name == name) return s;
    throw wrong("no such scenario: " + name);
}

}  // namespace crash
