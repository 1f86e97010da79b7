// SPDX-License-Identifier: Apache-2.0
// What of a replica is hashed, what the coordinator asks of a rank, and what it is answered.
#include <cairn/error.hpp>
#include <cairn/planner/detail/tabled_plans.hpp>
#include <cairn/save/detail/replica_hash.hpp>
#include <cairn/save/detail/replica_hashes.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(replica_hash)

namespace {

using cairn::box;
using cairn::const_tensor_view;
using cairn::dtype;
using cairn::index_vector;
using cairn::save_plan;
using cairn::write_item;
using cairn::detail::hash_replica;
using cairn::detail::held_replica;
using cairn::detail::replica_sample;

constexpr std::int64_t block = 1 << 10, large_block = 64 << 10;

std::vector<std::byte> bytes_of(std::int64_t n) {
    std::vector<std::byte> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::byte>(i * 7 % 251);
    return v;
}
std::uint64_t hash(const std::vector<std::byte>& v, const replica_sample& s) {
    return hash_replica({dtype::u8, {static_cast<std::int64_t>(v.size())}, v.data()}, s);
}
/// Whether a hash notices that one byte is another.
bool notices(std::vector<std::byte>& v, std::int64_t at, const replica_sample& s) {
    auto const before = hash(v, s);
    v[static_cast<std::size_t>(at)] ^= std::byte{1};
    auto const after = hash(v, s);
    v[static_cast<std::size_t>(at)] ^= std::byte{1};
    BOOST_REQUIRE(hash(v, s) == before);
    return after != before;
}

write_item item(const std::string& fqn, box region, index_vector global, std::uint32_t leaf = 0) {
    write_item i;
    i.fqn = fqn;
    i.kind = cairn::item_kind::shard;
    i.type = dtype::u8;
    i.global_shape = std::move(global);
    i.region = std::move(region);
    i.leaf = leaf;
    return i;
}
/// What one rank's part of the coordinator's message asks for.
std::vector<held_replica> asked(const cairn::detail::replica_table& t, std::size_t rank) {
    cairn::detail::wire_writer w;
    t.put(w, rank);
    cairn::detail::wire_reader r(w.written());
    auto held = cairn::detail::decode_held(r);
    std::sort(held.begin(), held.end(), [](auto& a, auto& b) { return a.item < b.item; });
    return held;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_hash_of_all_blocks_notices_every_byte) {
    for (std::int64_t n : {std::int64_t{1}, large_block - 1, large_block, large_block + 1,
                           3 * large_block, 3 * large_block + 5}) {
        auto v = bytes_of(n);
        std::set<std::int64_t> at{0, n / 2, n - 1};
        for (auto b = large_block; b < n; b += large_block) at.insert({b - 1, b});
        for (auto i : at) BOOST_TEST(notices(v, i, replica_sample::all()), n << " bytes, " << i);
    }
}

/// The order of blocks counts too.
BOOST_AUTO_TEST_CASE(a_hash_of_all_blocks_notices_those_that_changed_places) {
    std::vector<std::byte> v(2 * large_block), w;
    std::fill(v.begin(), v.begin() + large_block, std::byte{1});
    w = v;
    std::rotate(w.begin(), w.begin() + large_block, w.end());
    BOOST_TEST(hash(v, replica_sample::all()) != hash(w, replica_sample::all()));
}

/// Of each length one byte of every block, the last partial one included, is noticed by some save.
BOOST_AUTO_TEST_CASE(a_hash_of_some_blocks_notices_each_block_in_some_save) {
    for (std::int64_t n :
         {std::int64_t{1}, block - 1, block + 1, 5 * block, 7 * block + 3, 300 * block + 1}) {
        auto v = bytes_of(n);
        box const where = box::whole({n});
        auto const blocks = (n + block - 1) / block;
        std::vector<bool> seen(static_cast<std::size_t>(blocks), false);
        for (int save = 0; save < 3'000; ++save) {
            auto const s = replica_sample::some("save " + std::to_string(save), "w", where,
                                                static_cast<std::uint64_t>(n), 2);
            BOOST_REQUIRE(s.first < s.stride);
            auto const b = static_cast<std::int64_t>(s.first);
            BOOST_REQUIRE(b < blocks);
            if (seen[s.first]) continue;
            seen[s.first] = true;
            BOOST_TEST(notices(v, std::min(n, (b + 1) * block) - 1, s));
            BOOST_TEST(notices(v, b * block, s));
            if (b > 0) BOOST_TEST(!notices(v, b * block - 1, s));
            for (auto next = b + static_cast<std::int64_t>(s.stride); next < blocks;
                 next += static_cast<std::int64_t>(s.stride)) {
                seen[static_cast<std::size_t>(next)] = true;
                BOOST_TEST(notices(v, next * block, s));
            }
        }
        BOOST_TEST(std::count(seen.begin(), seen.end(), false) == 0);
    }
}

/// Tensors of one save, and the shards of one tensor, start at different blocks.
BOOST_AUTO_TEST_CASE(a_sample_starts_elsewhere_for_each_name_and_box) {
    std::set<std::uint64_t> by_name, by_box;
    for (int i = 0; i < 50; ++i) {
        by_name.insert(
            replica_sample::some("s", "w" + std::to_string(i), box::whole({1 << 20}), 1 << 20, 2)
                .first);
        by_box.insert(replica_sample::some("s", "w", box({i << 20}, {1 << 20}), 1 << 20, 2).first);
    }
    BOOST_TEST(by_name.size() > 25u);
    BOOST_TEST(by_box.size() > 25u);
}

/// Any layout of the same elements is the same: transposed, with gaps, backwards; none at all.
BOOST_AUTO_TEST_CASE(a_hash_does_not_depend_on_strides) {
    constexpr std::int64_t rows = 350, columns = 211;
    auto const v = bytes_of(rows * columns);
    const_tensor_view const dense(dtype::u8, {rows, columns}, v.data());
    for (auto const& strides : {index_vector{1, rows}, index_vector{2 * columns, 2},
                                index_vector{columns + 3, 1}, index_vector{-columns, 1}}) {
        std::vector<std::byte> memory(4 * v.size(), std::byte{0xee});
        auto* const start = memory.data() + (strides[0] < 0 ? (rows - 1) * columns : 0);
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t k = 0; k < columns; ++k)
                start[i * strides[0] + k * strides[1]] =
                    v[static_cast<std::size_t>(i * columns + k)];
        const_tensor_view const strided(dtype::u8, {rows, columns}, strides, start);
        BOOST_TEST(hash_replica(strided, replica_sample::all()) ==
                   hash_replica(dense, replica_sample::all()));
        for (int save = 0; save < 10; ++save) {
            auto const s =
                replica_sample::some(std::to_string(save), "w", box::whole({rows, columns}),
                                     static_cast<std::uint64_t>(rows * columns), 1);
            BOOST_TEST(hash_replica(strided, s) == hash_replica(dense, s));
        }
    }
    double const x = 1, y = 2;
    const_tensor_view const scalar(dtype::f64, {}, &x), other(dtype::f64, {}, &y);
    BOOST_TEST(hash_replica(scalar, replica_sample::all()) !=
               hash_replica(other, replica_sample::all()));
    const_tensor_view const expanded(dtype::f64, {3}, index_vector{0}, &x);
    std::vector<double> const three(3, x);
    BOOST_TEST(hash_replica(expanded, replica_sample::all()) ==
               hash_replica({dtype::f64, {3}, three.data()}, replica_sample::all()));
}

BOOST_AUTO_TEST_CASE(hashes_are_asked_of_those_who_hold_the_same_box) {
    std::vector<save_plan> plans(4);
    for (std::int64_t r = 0; r < 4; ++r) {
        auto& items = plans[static_cast<std::size_t>(r)].items;
        items.push_back(item("own", box({r}, {1}), {4}));
        items.push_back(item("nothing", box::whole({0}), {0}));
        items.push_back(item("value", {}, {}));
        items.back().kind = cairn::item_kind::value;
        items.push_back(item("pair", box({r % 2}, {1}), {2}));
        if (r != 2) items.push_back(item("three", box::whole({5}), {5}));
        items.push_back(item("trusted", box::whole({5}), {5}));
    }
    cairn::save_options o;
    o.replicas = cairn::replica_policy::trust;  // what `replicas_of` says counts
    o.replicas_of = [](std::string_view fqn) {
        return fqn == "trusted" ? cairn::replica_policy::trust
               : fqn == "three" ? cairn::replica_policy::verify
                                : cairn::replica_policy::sampled;
    };
    cairn::detail::tabled_plans const all(plans);
    cairn::detail::replica_table const t(all.table, o);
    for (std::size_t r = 0; r < 4; ++r) {
        auto const held = asked(t, r);
        BOOST_TEST_REQUIRE(held.size() == (r == 2 ? 1u : 2u));
        BOOST_TEST(held[0].item == 3u);
        BOOST_TEST(held[0].holders == 2u);
        BOOST_TEST(!held[0].whole);
        if (r == 2) continue;
        BOOST_TEST(held[1].item == 4u);
        BOOST_TEST(held[1].holders == 3u);
        BOOST_TEST(held[1].whole);
    }
    o.replicas_of = {};
    cairn::detail::replica_table const none(all.table, o);
    for (std::size_t r = 0; r < 4; ++r) BOOST_TEST(asked(none, r).empty());
}

/// A sample is what the number of holders makes it, no more; an item of none of this rank's memory
/// is answered with 0.
BOOST_AUTO_TEST_CASE(hashes_are_answered_for_as_much_as_was_asked) {
    constexpr std::int64_t n = 1 << 20;
    auto v = bytes_of(n);
    cairn::flat_state state(1);
    state[0].fqn = "w";
    cairn::tensor_leaf t;
    t.type = dtype::u8;
    t.global_shape = {n};
    t.shards.emplace_back(box::whole({n}), cairn::tensor_view(dtype::u8, {n}, v.data()));
    save_plan local;
    local.items = {item("w", box::whole({n}), {n}), item("part", box({5}, {100}), {n}),
                   item("other shape", box::whole({n}), {n + 1}),
                   item("too much", box({5}, {n}), {n}), item("no leaf", box::whole({n}), {n}, 1)};
    auto const answers = [&](const std::vector<held_replica>& held) {
        state[0].what = t;
        cairn::detail::state_devices devices;
        cairn::detail::replica_hashes hashes;
        cairn::activity progress;
        hashes.begin(held, local, state, "id", devices, progress);
        BOOST_TEST(hashes.advance());
        auto const told = hashes.take();
        cairn::detail::wire_reader r(told);
        std::vector<std::uint64_t> all(r.count(8));
        for (auto& h : all) h = r.u64();
        return all;
    };
    auto const got = answers(
        {{0, 3, false}, {0, 3, true}, {1, 2, true}, {2, 2, true}, {3, 2, true}, {4, 2, true}});
    auto const s = replica_sample::some("id", "w", box::whole({n}), n, 3);
    BOOST_TEST(s.stride == 192u);
    BOOST_TEST_REQUIRE(got.size() == 6u);
    BOOST_TEST(got[0] == hash(v, s));
    BOOST_TEST(got[1] == hash(v, replica_sample::all()));
    BOOST_TEST(got[2] == hash({v.begin() + 5, v.begin() + 105}, replica_sample::all()));
    for (std::size_t k = 3; k < 6; ++k) BOOST_TEST(got[k] == 0u);
    BOOST_CHECK_THROW(answers({{5, 2, true}}), cairn::error);

    // What only a planner of the user's can read.
    auto const good = t.shards[0].view;
    auto& view = t.shards[0].view;
    view.device.kind = cairn::memory_kind::cuda;
    BOOST_TEST(answers({{1, 2, true}})[0] == 0u);
    view = good;
    view.data = nullptr;
    BOOST_TEST(answers({{1, 2, true}})[0] == 0u);
    view = good;
    view.shape = {50};
    BOOST_TEST(answers({{1, 2, true}})[0] == 0u);
    view = good;
    view.strides = {};
    BOOST_TEST(answers({{1, 2, true}})[0] == 0u);
    view = good;
    view.type = dtype::f32;
    BOOST_TEST(answers({{1, 2, true}})[0] == 0u);
}

/// However many holders a message names: no crash, and no block twice.
BOOST_AUTO_TEST_CASE(a_sample_has_a_stride_for_any_number_of_holders) {
    for (std::uint64_t holders : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 58,
                                  std::uint64_t{1} << 62, UINT64_MAX >> 1}) {
        auto const s = replica_sample::some("s", "w", box::whole({200'000}), 200'000, holders);
        BOOST_TEST(s.stride == (holders == 1 ? 64u : 196u));
        BOOST_TEST(s.first < s.stride);
    }
}

BOOST_AUTO_TEST_CASE(a_message_that_cannot_be_asks_for_no_hash) {
    auto const decode = [](std::uint64_t item, std::uint64_t holders) {
        cairn::detail::wire_writer w;
        w.varint(1);
        w.varint(item);
        w.varint(holders << 1);
        cairn::detail::wire_reader r(w.written());
        return cairn::detail::decode_held(r);
    };
    BOOST_TEST(decode(7, 2).at(0).item == 7u);
    BOOST_CHECK_THROW(decode(7, 0), cairn::error);
    BOOST_CHECK_THROW(decode((std::uint64_t{1} << 32) + 7, 2), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
