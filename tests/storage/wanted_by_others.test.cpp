// SPDX-License-Identifier: Apache-2.0
// A rank tells from its own plan whether others are likely to read the same bytes.
#include <cairn/storage/detail/wanted_by_others.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <utility>

BOOST_AUTO_TEST_SUITE(wanted_by_others)

namespace {

/// A tensor that is stored by rows, in two chunks.
cairn::metadata stored(std::int64_t rows) {
    cairn::tensor_metadata t;
    t.type = cairn::dtype::float32;
    t.shape = {rows, 100};
    auto const first = rows / 2;
    t.chunks.push_back({cairn::box({0, 0}, {first, 100}), {}});
    t.chunks.push_back({cairn::box({first, 0}, {rows - first, 100}), {}});
    cairn::metadata m;
    m.entries["w"] = std::move(t);
    m.entries["step"] = cairn::value_metadata{};
    return m;
}
cairn::read_item item(std::uint32_t chunk, std::int64_t rows, std::int64_t columns = 100) {
    cairn::read_item i;
    i.fqn = "w";
    i.kind = cairn::item_kind::shard;
    i.chunk = chunk;
    i.source_offsets = {0, 0};
    i.target_offsets = {0, 0};
    i.shape = {rows, columns};
    return i;
}
bool has(const cairn::load_plan& p, std::int64_t rows, int world_size) {
    auto const m = stored(rows);
    return cairn::detail::wanted_by_others(p, m, world_size).has("w");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tensor_that_the_ranks_read_twice_is_wanted_by_others) {
    cairn::load_plan whole, half, quarter, columns;
    whole.items = {item(0, 400), item(1, 400)};
    half.items = {item(1, 400)};
    quarter.items = {item(0, 200)};
    columns.items = {item(0, 400, 25), item(1, 400, 25)};
    for (auto const& [plan, alone_up_to] :
         {std::pair{whole, 1}, {half, 3}, {quarter, 7}, {columns, 7}})
        for (int ranks = 1; ranks < 20; ++ranks)
            BOOST_TEST(has(plan, 800, ranks) == (ranks > alone_up_to), ranks << " ranks");
}

/// Shares of five rows: 2, 1, 1, 1.
BOOST_AUTO_TEST_CASE(a_share_that_is_merely_larger_is_not_wanted_by_others) {
    cairn::load_plan p;
    p.items = {item(0, 2)};
    BOOST_TEST(!has(p, 5, 4));
}

/// Then it is read by way of the page cache.
BOOST_AUTO_TEST_CASE(a_tensor_of_which_nothing_is_known_is_wanted_by_others) {
    auto const m = stored(800);
    cairn::load_plan p;
    auto value = item(0, 1);
    value.fqn = "step";
    value.kind = cairn::item_kind::value;
    auto unknown = item(0, 1);
    unknown.fqn = "v";
    p.items = {value, unknown, item(7, 400), item(0, 4000)};
    for (auto const& w : {cairn::detail::wanted_by_others(), {p, m, 1}, {p, m, 8}, {{}, m, 1}})
        for (auto const* name : {"w", "v", "step", ""}) BOOST_TEST(w.has(name));
    p.items.push_back(item(0, 1));
    BOOST_TEST(!cairn::detail::wanted_by_others(p, m, 8).has("w"));
}

BOOST_AUTO_TEST_SUITE_END()
