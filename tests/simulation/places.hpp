// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_PLACES_HPP
#define CAIRN_TEST_SIMULATION_PLACES_HPP

#include "chance_world.hpp"
#include "content.hpp"
#include "ending.hpp"
#include "job.hpp"
#include "storage_client.hpp"
#include "storage_server.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// What is stored, in another store.
inline cairn::memory_store copy_of(const storage_server& server, store_kind kind) {
    cairn::memory_store out;
    for (auto const& [name, f] : server.all())
        if (f->finished || kind != store_kind::bucket) out.publish(name, f->bytes, std::nullopt);
    return out;
}

/// All that is stored at "c".
using objects = std::map<std::string, cairn::byte_vector>;
inline objects all_of(cairn::memory_store place) {
    objects out;
    for (auto const& info : place.list()) {
        auto const r = place.open(info.name);
        cairn::byte_vector bytes(static_cast<std::size_t>(r.size()));
        r.read(0, bytes);
        out.emplace(info.name, std::move(bytes));
    }
    return out;
}

/// Ranks that save or load once more, in an order of chance.
template <class Start>
endings in_some_order(std::uint64_t seed, int ranks, const cairn::memory_store& base, Start start) {
    chance_world w(seed);
    endings e(ranks);
    job<cairn::memory_store> j(w, ranks, 3, [&](int) { return base; });
    for (int r = 0; r < ranks; ++r) start(j, r, e[static_cast<std::size_t>(r)]);
    auto const over = [&] {
        return std::all_of(e.begin(), e.end(), [](auto& one) { return one->over; });
    };
    require(w.run(over, std::chrono::hours(1)), "the next one hangs");
    return e;
}
inline void save_well(const cairn::memory_store& base, int ranks, int version) {
    std::vector<std::unique_ptr<content>> state;
    for (int r = 0; r < ranks; ++r) state.push_back(std::make_unique<content>(r, ranks, version));
    auto const e = in_some_order(static_cast<std::uint64_t>(version), ranks, base,
                                 [&](auto& j, int r, auto& ended) {
                                     j.save(r, *state[static_cast<std::size_t>(r)], {}, ended);
                                 });
    require(e.all_well(), "the next save fails:" + e.text());
    require(standing(base, ranks) == version, "the next save is not what stands");
}
inline void load_well(const cairn::memory_store& base, int ranks, int saved_by, int version) {
    std::vector<std::unique_ptr<columns>> state;
    for (int r = 0; r < ranks; ++r) state.push_back(std::make_unique<columns>(r, ranks, saved_by));
    auto const e = in_some_order(1, ranks, base, [&](auto& j, int r, auto& ended) {
        j.load(r, *state[static_cast<std::size_t>(r)], {}, ended);
    });
    require(e.all_well(), "the next load fails:" + e.text());
    for (auto const& s : state) s->require_version(version);
}

inline cairn::memory_store with(const objects& all) {
    cairn::memory_store base;
    for (auto const& [name, bytes] : all) base.at("c").publish(name, bytes, std::nullopt);
    return base;
}

/// What is true of equal objects is found out once.
template <class T, class F>
T once(std::map<std::pair<int, objects>, T>& known, const objects& all, int ranks, F find) {
    auto key = std::pair(ranks, all);
    // When a save has begun is not the same in two runs.
    for (auto& [name, bytes] : key.second)
        if (name.starts_with(cairn::detail::intent_prefix)) bytes.clear();
    auto const it = known.find(key);
    if (it != known.end()) return it->second;
    return known.emplace(std::move(key), find()).first->second;
}
inline int standing_in(const objects& all, int ranks) {
    static std::map<std::pair<int, objects>, int> known;
    return once(known, all, ranks, [&] { return standing(with(all), ranks); });
}
/// The next job can load it, and save over it.
inline void require_sound(const objects& all, int ranks) {
    static std::map<std::pair<int, objects>, bool> known;
    once(known, all, ranks, [&] {
        if (auto const now = standing_in(all, ranks)) load_well(with(all), 1, ranks, now);
        save_well(with(all), ranks, 9);
        return true;
    });
}

/// The place of one order: empty, or with version 1.
inline cairn::memory_store place(bool saved, int ranks) {
    static std::map<int, objects> first;
    if (!saved) return {};
    auto& o = first[ranks];
    if (o.empty()) {
        cairn::memory_store made;
        save_well(made, ranks, 1);
        o = all_of(made.at("c"));
    }
    return with(o);
}

}  // namespace simulation

#endif
