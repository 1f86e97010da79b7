// SPDX-License-Identifier: Apache-2.0
// How many items a mapped tensor is read as, which bytes, and how many chunks it is stored as.
#include "float_views.hpp"
#include "support/counting_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_items)

namespace {

using cairn::dtype;
using cairn::index_vector;
using cairn::tensor_view;
using float_views::numbers;
using float_views::view;

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_reads_only_the_bytes_that_it_needs) {
    using namespace cairn::map;
    constexpr std::int64_t rows = 64, columns = 4096;
    support::counting_store store{cairn::memory_store()};
    auto q = numbers(rows * columns), k = numbers(rows * columns, 1e6f);
    auto const shape = index_vector{rows, columns};
    cairn::save(cairn::state_dict{{"q", view(q, shape)}, {"k", view(k, shape)}}, "c", store);
    cairn::mapping how;
    how.set("qk", concat(0, {stored("q"), stored("k")}));
    // The last row of q, and the first of k.
    std::vector<float> two(2 * columns);
    cairn::sharded_view part{{2 * rows, columns}, dtype::float32, {}};
    part.shards.emplace_back(cairn::box({rows - 1, 0}, {2, columns}), view(two, {2, columns}));
    cairn::load(cairn::state_dict{{"qk", part}}, "c", store, how);
    BOOST_TEST((std::vector<float>(two.begin(), two.begin() + columns) ==
                std::vector<float>(q.end() - columns, q.end())));
    BOOST_TEST((std::vector<float>(two.begin() + columns, two.end()) ==
                std::vector<float>(k.begin(), k.begin() + columns)));
    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    // Blocks that have a checksum are read whole.
    constexpr std::uint64_t block = cairn::payload::block_bytes, row = columns * sizeof(float);
    auto place = store.at("c");
    auto const at = [&](const char* name) {
        auto const l = m.tensor(name)->chunks.location(0);
        return std::pair(l.file, l.offset + (l.layout ? l.layout->payload_offset : 0));
    };
    auto const [file_q, first_q] = at("q");
    auto const [file_k, first_k] = at("k");
    BOOST_TEST(place.reads(file_q, first_q, rows * row - row - block).second == 0);
    BOOST_TEST(place.reads(file_q, first_q + (rows - 1) * row, row).first == 1);
    BOOST_TEST(place.reads(file_k, first_k, row).first == 1);
    BOOST_TEST(place.reads(file_k, first_k + row + block, rows * row - row - 2 * block).second ==
               0);
}

BOOST_AUTO_TEST_CASE(interleaved_rows_are_one_item_and_read_alone) {
    using namespace cairn::map;
    // Groups of four rows of q and four of k, 128 KiB each: two blocks with a checksum.
    constexpr std::int64_t groups = 9, columns = 8192;
    auto const shape = index_vector{groups * 8, columns}, half = index_vector{groups * 4, columns};
    auto fused = numbers(static_cast<std::size_t>(shape.product()));
    support::counting_store store{cairn::memory_store()};
    // The second rank begins, and the first one ends, within the rows of k.
    constexpr std::int64_t first_rows = 30;
    cairn::run_ranks(2, [&](auto& me) {
        auto const begin = me.rank() == 0 ? 0 : first_rows;
        auto const n = me.rank() == 0 ? first_rows : shape[0] - first_rows;
        cairn::sharded_view s{shape, dtype::float32, {}};
        s.shards.emplace_back(
            cairn::box({begin, 0}, {n, columns}),
            tensor_view(dtype::float32, index_vector{n, columns}, fused.data() + begin * columns));
        cairn::save(cairn::state_dict{{"qk", s}}, "c", store, me);
    });
    cairn::mapping how;
    how.set("k", merge_dims(unstack(split_dim(stored("qk"), 0, {groups, 2, 4}), 1, 1), 0, {-1, 4}));
    std::vector<float> k(static_cast<std::size_t>(half.product()));
    cairn::load(cairn::state_dict{{"k", view(k, half)}}, "c", store, how);
    bool same = true;
    for (std::int64_t row = 0; row < half[0]; ++row)
        same = same && std::equal(k.begin() + row * columns, k.begin() + (row + 1) * columns,
                                  fused.begin() + (row / 4 * 8 + 4 + row % 4) * columns);
    BOOST_TEST(same);

    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    cairn::detail::mapped_metadata const mapped(m, how);
    auto const count = [&](bool finer) {
        int n = 0;
        mapped.for_each_part(
            *mapped.tensor("k"), cairn::box::whole(half), finer, [&](auto&&...) { ++n; },
            [](auto&) {});
        return n;
    };
    // Of the first chunk three groups and half of one; of the second the other half, four groups,
    // and a last one, after which nothing follows.
    BOOST_TEST(count(true) == 5);
    BOOST_TEST(count(false) == 10);
    auto place = store.at("c");
    std::uint64_t read = 0, wrong = 0;
    for (std::size_t c = 0; c < m.tensor("qk")->chunks.size(); ++c) {
        auto const at = m.tensor("qk")->chunks.location(c);
        auto const region = m.tensor("qk")->chunks.region(c);
        constexpr std::uint64_t row_bytes = columns * sizeof(float);
        for (std::int64_t row = 0; row < region.shape[0]; ++row) {
            auto const n = place.reads(
                at.file,
                at.offset + at.layout->payload_offset + static_cast<std::uint64_t>(row) * row_bytes,
                row_bytes);
            bool const of_k = (region.offsets[0] + row) % 8 >= 4;
            read += n.second != 0;
            wrong += n.first != n.second || n.first != (of_k ? 1 : 0);
        }
    }
    BOOST_TEST(read == 36u);
    BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_CASE(of_interleaved_rows_stored_by_columns_a_rank_reads_its_columns) {
    using namespace cairn::map;
    constexpr std::int64_t groups = 9, columns = 8192, begin = 2048, n = 1024;
    auto const shape = index_vector{groups * 8, columns}, half = index_vector{groups * 4, columns};
    auto fused = numbers(static_cast<std::size_t>(shape.product()));
    cairn::memory_store memory;
    constexpr std::int64_t first_rows = 30;  // ends within the rows of k
    cairn::sharded_view s{shape, dtype::float32, {}};
    for (auto const& [first, rows] :
         {std::pair(std::int64_t{0}, first_rows), std::pair(first_rows, groups * 8 - first_rows)})
        s.shards.emplace_back(cairn::box({first, 0}, {rows, columns}),
                              tensor_view(dtype::float32, index_vector{rows, columns},
                                          index_vector{1, rows}, fused.data() + first * columns));
    cairn::save(cairn::state_dict{{"qk", s}}, "c", memory);
    auto const stored_at = [&](std::int64_t row, std::int64_t column) {
        auto const first = row < first_rows ? 0 : first_rows;
        auto const rows = row < first_rows ? first_rows : groups * 8 - first_rows;
        return fused[static_cast<std::size_t>(first * columns + column * rows + row - first)];
    };
    cairn::checkpoint_reader reader(memory);
    reader.reset("c");
    auto const m = reader.read_metadata();
    /// Loads some columns of a tensor. @return How many blocks are read.
    auto const load = [&](const char* name, const index_vector& whole, std::vector<float>& to,
                          const cairn::mapping& how) {
        support::counting_store store(memory);
        to.resize(static_cast<std::size_t>(whole[0] * n));
        cairn::sharded_view part{whole, dtype::float32, {}};
        part.shards.emplace_back(cairn::box({0, begin}, {whole[0], n}), view(to, {whole[0], n}));
        cairn::load(cairn::state_dict{{name, part}}, "c", store, how);
        auto place = store.at("c");
        int blocks = 0;
        auto const& chunks = m.tensor("qk")->chunks;
        for (std::size_t c = 0; c < chunks.size(); ++c) {
            auto const at = chunks.location(c);
            auto const bytes = static_cast<std::uint64_t>(chunks.region(c).volume()) * 4;
            for (std::uint64_t b = 0; b < bytes; b += cairn::payload::block_bytes)
                blocks +=
                    place.reads(at.file, at.offset + at.layout->payload_offset + b, 1).second != 0;
        }
        return blocks;
    };
    cairn::mapping how;
    how.set("k", merge_dims(unstack(split_dim(stored("qk"), 0, {groups, 2, 4}), 1, 1), 0, {-1, 4}));
    std::vector<float> k, all;
    auto const mapped = load("k", half, k, how), unmapped = load("qk", shape, all, {});
    BOOST_TEST(mapped == unmapped);
    BOOST_TEST(unmapped <= 7);  // of 36
    bool same = true;
    for (std::int64_t row = 0; row < half[0]; ++row)
        for (std::int64_t c = 0; c < n; ++c)
            same = same && k[static_cast<std::size_t>(row * n + c)] ==
                               stored_at(row / 4 * 8 + 4 + row % 4, begin + c);
    BOOST_TEST(same);
}

/// 32 MiB of a chunk of 64: each thread reads at least 8.
BOOST_AUTO_TEST_CASE(interleaved_rows_are_read_by_several_threads) {
    using namespace cairn::map;
    constexpr std::int64_t groups = 256, columns = 8192;
    auto const shape = index_vector{groups * 8, columns}, half = index_vector{groups * 4, columns};
    auto fused = numbers(static_cast<std::size_t>(shape.product()));
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"qk", view(fused, shape)}}, "c", store);
    cairn::mapping how;
    how.set("k", merge_dims(unstack(split_dim(stored("qk"), 0, {groups, 2, 4}), 1, 1), 0, {-1, 4}));
    std::vector<float> k(static_cast<std::size_t>(half.product()));
    cairn::load(cairn::state_dict{{"k", view(k, half)}}, "c", how,
                cairn::torch_reader(store, {.thread_count = 4}));
    bool same = true;
    for (std::int64_t row = 0; row < half[0]; ++row)
        same = same && std::equal(k.begin() + row * columns, k.begin() + (row + 1) * columns,
                                  fused.begin() + (row / 4 * 8 + 4 + row % 4) * columns);
    BOOST_TEST(same);
    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    cairn::read_item item;
    item.fqn = "qk";
    item.kind = cairn::item_kind::shard;
    item.shape = {groups, 4, columns};
    item.source_offsets = {0, 4, 0};
    auto const* t = m.tensor("qk");
    BOOST_TEST(cairn::detail::read_bytes_of(item, t) == std::uint64_t{1} << 25);
    item.shape = {groups, 16, columns};  // more than there is
    BOOST_TEST(cairn::detail::read_bytes_of(item, t) == 0u);
}

/// Finer dimensions need groups that the columns of a chunk consist of.
BOOST_AUTO_TEST_CASE(groups_that_begin_or_end_elsewhere_are_boxes) {
    using namespace cairn::map;
    constexpr std::int64_t rows = 4096, columns = 16;
    auto w = numbers(rows * columns);
    support::counting_store store{cairn::memory_store()};
    cairn::save(cairn::state_dict{{"w", view(w, {rows, columns})}}, "c", store);
    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    auto const at = m.tensor("w")->chunks.location(0);
    struct one {
        std::int64_t first, groups, columns;
    };
    // Groups that begin within others, and groups that the columns are no multiple of.
    for (auto const& [first, groups, length] : {one{2, 3, 4}, one{0, 2, 6}, one{6, 2, 3}}) {
        auto const part = slice(stored("w"), 1, first, first + groups * length);
        cairn::mapping how;
        how.set("k", permute(split_dim(part, 1, {groups, length}), {1, 0, 2}));
        constexpr std::int64_t some = 100;
        std::vector<float> k(static_cast<std::size_t>(groups * some * length));
        auto const shape = index_vector{groups, some, length};
        cairn::sharded_view s{{groups, rows, length}, dtype::float32, {}};
        s.shards.emplace_back(cairn::box({0, 0, 0}, shape), view(k, shape));
        auto place = store.at("c");
        constexpr std::uint64_t block = cairn::payload::block_bytes;
        auto const beyond = [&] {
            return place
                .reads(at.file, at.offset + (at.layout ? at.layout->payload_offset : 0) + block,
                       w.size() * sizeof(float) - block)
                .second;
        };
        auto const before = beyond();
        cairn::load(cairn::state_dict{{"k", s}}, "c", store, how);
        BOOST_TEST(beyond() == before);
        bool same = true;
        for (std::int64_t g = 0; g < groups; ++g)
            for (std::int64_t row = 0; row < some; ++row)
                same = same && std::equal(k.begin() + (g * some + row) * length,
                                          k.begin() + (g * some + row + 1) * length,
                                          w.begin() + row * columns + first + g * length);
        BOOST_TEST(same);
    }
}

/// Rows are no divisor of a piece, nor are columns one of a cache line.
BOOST_AUTO_TEST_CASE(what_is_transposed_is_read_once_in_large_pieces) {
    using namespace cairn::map;
    constexpr std::int64_t rows = 1003, columns = 1501;
    auto w = numbers(rows * columns);
    support::counting_store store{cairn::memory_store()};
    cairn::save(cairn::state_dict{{"w", view(w, {rows, columns})}}, "c", store);
    cairn::mapping how;
    how.set("w", transpose(stored("w")));
    std::vector<float> t(w.size());
    cairn::load(cairn::state_dict{{"w", view(t, {columns, rows})}}, "c", store, how);
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
            wrong += t[static_cast<std::size_t>(c * rows + r)] !=
                     w[static_cast<std::size_t>(r * columns + c)];
    BOOST_TEST(wrong == 0);
    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const at = reader.read_metadata().tensor("w")->chunks.location(0);
    auto const read = store.at("c").reads(
        at.file, at.offset + (at.layout ? at.layout->payload_offset : 0), w.size() * sizeof(float));
    BOOST_TEST(read.first == 1);
    BOOST_TEST(read.second == 1);
    BOOST_TEST(store.calls(at.file) < 12);  // of 6 MB
}

BOOST_AUTO_TEST_CASE(what_is_only_reshaped_is_stored_as_one_chunk) {
    using namespace cairn::map;
    auto w = numbers(24);
    cairn::mapping how;
    how.set("w", split_dim(stored("s"), 1, {3, 4}));
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"w", view(w, {2, 3, 4})}}, "c", store, how);
    cairn::torch_reader reader(store);
    reader.reset("c");
    BOOST_TEST(reader.read_metadata().tensor("s")->chunks.size() == 1u);
    std::vector<float> s(24);
    cairn::load(cairn::state_dict{{"s", view(s, {2, 12})}}, "c", store);
    BOOST_TEST(s == w, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_in_turn_are_stored_as_one_chunk) {
    using namespace cairn::map;
    constexpr std::int64_t rows = 100;
    auto gate = numbers(rows * 3), up = numbers(rows * 3, 1000);
    cairn::mapping how;
    how.set("gate", unstack(split_dim(stored("both"), 0, {rows, 2}), 0, 1))
        .set("up", unstack(split_dim(stored("both"), 0, {rows, 2}), 1, 1));
    cairn::memory_store store;
    // Two ranks: each has the rows of a box.
    cairn::run_ranks(2, [&](auto& me) {
        auto const half = [&](std::vector<float>& of) {
            cairn::sharded_view s{{rows, 3}, dtype::float32, {}};
            auto const begin = me.rank() * rows / 2;
            s.shards.emplace_back(
                cairn::box({begin, 0}, {rows / 2, 3}),
                tensor_view(dtype::float32, index_vector{rows / 2, 3}, of.data() + 3 * begin));
            return s;
        };
        cairn::save(cairn::state_dict{{"gate", half(gate)}, {"up", half(up)}}, "c", store, me, how);
    });
    cairn::torch_reader reader(store);
    reader.reset("c");
    BOOST_TEST(reader.read_metadata().tensor("both")->chunks.size() == 2u);
    std::vector<float> both(rows * 6);
    cairn::load(cairn::state_dict{{"both", view(both, {2 * rows, 3})}}, "c", store);
    bool same = true;
    for (std::int64_t row = 0; row < rows; ++row)
        same = same &&
               std::equal(both.begin() + 6 * row, both.begin() + 6 * row + 3,
                          gate.begin() + 3 * row) &&
               std::equal(both.begin() + 6 * row + 3, both.begin() + 6 * row + 6,
                          up.begin() + 3 * row);
    BOOST_TEST(same);
}

BOOST_AUTO_TEST_CASE(a_conversion_reads_what_a_mapping_transposes_once_or_twice) {
    constexpr std::int64_t rows = 2048, columns = 2048;  // four pieces
    support::counting_store store{cairn::memory_store()};
    auto x = numbers(rows * columns);
    cairn::save(cairn::state_dict{{"x", view(x, {rows, columns})}}, "c", store);
    cairn::mapping how;
    how.set("y", cairn::map::transpose(cairn::map::stored("x")));
    cairn::memory_store to;
    auto place = store.at("c");
    cairn::checkpoint_reader reader(store);
    reader.reset("c");
    auto const l = reader.read_metadata().tensor("x")->chunks.location(0);
    auto const before = place.reads(l.file, l.offset, l.length).second;
    cairn::convert({store, "c"}, "d", to, how);
    BOOST_TEST(place.reads(l.file, l.offset, l.length).second - before <= 2);
    std::vector<float> y(x.size());
    cairn::load(cairn::state_dict{{"y", view(y, {columns, rows})}}, "d", to);
    for (std::int64_t r = 0; r < rows; r += 97)
        for (std::int64_t c = 0; c < columns; c += 89)
            if (y[static_cast<std::size_t>(c * rows + r)] !=
                x[static_cast<std::size_t>(r * columns + c)])
                BOOST_FAIL("row " << r << ", column " << c);
}

BOOST_AUTO_TEST_SUITE_END()
