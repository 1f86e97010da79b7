// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SAVED_BY_RANKS_HPP
#define CAIRN_TEST_SUPPORT_SAVED_BY_RANKS_HPP

#include "meddling_group.hpp"

#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/mesh.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

/// One checkpoint, `c`, that is saved over and over while something fails: what then holds.
namespace support {

constexpr std::chrono::seconds hang{20};  // ends a wait that should not be; no test waits for it

/// What one rank holds: rows of its own, and what all ranks hold alike. All of it tells `v`.
struct rank_state {
    std::vector<float> rows, bias;
    int step = 0;
    cairn::state_dict dict{};

    rank_state(float v, int rank, int ranks)
        : rows(6, v), bias(3, v + 0.5f), step(static_cast<int>(v)) {
        dict = {
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {2, 3}, rows.data()),
                                       {2 * ranks, 3}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, rank)},
            {"bias", bias},
            {"step", std::ref(step)}};
    }
    bool is(float v) const {
        for (float x : rows)
            if (x != v) return false;
        for (float x : bias)
            if (x != v + 0.5f) return false;
        return step == static_cast<int>(v);
    }
};

enum class verb { blocking, background };

inline cairn::save_options patient_save() {
    cairn::save_options o;
    o.exchange_timeout = hang;
    return o;
}
inline cairn::load_options patient_load() {
    cairn::load_options o;
    o.exchange_timeout = hang;
    return o;
}

/// One rank's part of a save.
template <class Group, class Store>
void save_as(verb how, rank_state& s, Group& me, Store store) {
    if (how == verb::blocking) {
        (void)cairn::save(s.dict, "c", patient_save(), me, store);
    } else {
        auto pending = cairn::async_save(s.dict, "c", patient_save(), me, std::move(store),
                                         boost::asio::use_future)
                           .get();
        (void)pending.wait();
    }
}
/// Saves `v`; what each rank was told. @param store_of  Returns the store of a rank.
template <class StoreOf>
std::vector<told> save_on_ranks(float v, int ranks, StoreOf&& store_of, verb how = verb::blocking) {
    return on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        rank_state s(v, rank, ranks);
        save_as(how, s, me, store_of(rank));
    });
}

/// The value of the whole checkpoint that stands there; 0 where none does, less where it is broken.
template <class Store>
float standing(Store base, int ranks) {
    auto place = base.at("c");
    if (place.tag(".metadata").text.empty()) return 0;
    std::vector<float> seen(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        rank_state s(0, r, ranks);
        try {
            (void)cairn::load(s.dict, "c", Store(base));
        } catch (const cairn::error&) {
            return -2;
        }
        seen[static_cast<std::size_t>(r)] = s.is(s.rows[0]) ? s.rows[0] : -1;
    }
    for (float v : seen)
        if (v != seen[0]) return -1;
    return seen[0];
}

/// What must hold after a save of `saved` over `old` of which one operation failed.
template <class Store>
void check_save(const Store& base, const std::vector<told>& all, float old, float saved,
                int ranks) {
    auto const now = standing(base, ranks);
    BOOST_TEST((now == old || now == saved), "what stands is " << now);
    for (auto const& t : all) {
        BOOST_TEST(!t.raw);
        BOOST_TEST(!t.is(cairn::errc::timed_out));
        if (t.ok()) BOOST_TEST(now == saved);
        if (t.e && !t.is(cairn::errc::outcome_unknown)) BOOST_TEST(now == old);
    }
}
/// The place is as good as new: a later save works, and what the failed one left is gone.
template <class Store>
void check_next_save(const Store& base, float later, int ranks) {
    auto const again = save_on_ranks(later, ranks, [&](int) { return base; });
    for (auto const& t : again) BOOST_TEST(t.ok(), words(again));
    BOOST_TEST(standing(base, ranks) == later);
    auto place = base.at("c");
    auto const left = place.list();
    std::string list;
    for (auto const& i : left) list += " " + i.name;
    BOOST_TEST(left.size() == static_cast<std::size_t>(ranks) + 1, "left:" << list);
}

}  // namespace support

#endif
