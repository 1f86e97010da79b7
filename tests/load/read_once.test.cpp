// SPDX-License-Identifier: Apache-2.0
// What all ranks want is read once and broadcast.
#include "odd_planner.hpp"
#include "replicas.hpp"
#include "support/counting_store.hpp"
#include "support/nccl_ranks.hpp"

#include <cairn/async_load.hpp>
#include <cairn/load/detail/read_once/pieces.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_once)

using namespace replicas;

BOOST_AUTO_TEST_CASE(the_state_is_what_each_rank_would_have_read) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    for (int n : {1, 2, 3, 5, 8}) {
        // r0 to r4, one tied weight, d.
        std::uint64_t const shared = 5 * 960 + 200 + 24;
        for (std::uint64_t const least : {always, shared, shared + 1, never}) {
            BOOST_TEST_CONTEXT(n << " ranks, from " << least << " bytes on") {
                std::vector<cairn::read_once_report> reports(static_cast<std::size_t>(n));
                auto const body = [&](auto& comm, auto& plane) {
                    wanted to(comm.rank(), n);
                    auto sd = to.dict();
                    auto const r = cairn::load(sd, "c", how(least), plane, comm, memory);
                    must(to.is(from), "a rank has another state");
                    reports[static_cast<std::size_t>(comm.rank())] = r.read_once;
                };
                BOOST_CHECK_NO_THROW(with_planes(n, body));
                // The group of the control plane does for both.
                BOOST_CHECK_NO_THROW(cairn::run_ranks(n, [&](member& me) {
                    cairn::communicator_data_plane plane(me);
                    body(me, plane);
                }));
                for (auto const& r : reports) {
                    BOOST_TEST(r.shared_bytes == (n == 1 ? 0 : shared));
                    BOOST_TEST(r.once_bytes == (n == 1 || least > shared ? 0 : shared));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(storage_gives_each_byte_once) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    cairn::torch_reader reader(memory);
    reader.reset("c");
    auto const meta = reader.read_metadata();
    static constexpr int n = 4;
    auto const reads = [&](std::uint64_t least, auto check) {
        support::counting_store<cairn::memory_store> store(memory);
        with_planes(n, [&](member& me, auto& plane) {
            wanted to(me.rank(), n);
            auto sd = to.dict();
            (void)cairn::load(sd, "c", how(least), me, plane, store);
            must(to.is(from), "a rank has another state");
        });
        for (auto const& [fqn, entry] : meta.entries) {
            auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr) continue;
            auto const& at = t->chunks[0].at;
            check(fqn, store.reads(at.file, at.offset + at.layout->payload_offset,
                                   at.layout->payload_length));
        }
    };
    using range = std::pair<int, int>;
    reads(always, [](const std::string& fqn, range r) {
        BOOST_TEST_CONTEXT(fqn) {
            if (fqn == "s")
                BOOST_TEST(r.first >= 1);  // by rows: ranks may share a block
            else if (fqn == "tied_2")
                BOOST_TEST((r == range(0, 0)));  // its checksum tells
            else
                BOOST_TEST((r == (fqn == "r5" ? range(2, 2) : range(1, 1))));
        }
    });
    reads(never, [](const std::string& fqn, range r) {
        BOOST_TEST_CONTEXT(fqn) {
            if (fqn != "s" && fqn != "tied_2")
                BOOST_TEST((r == (fqn == "r5" ? range(2, 2) : range(n, n))));
        }
    });
}

BOOST_AUTO_TEST_CASE(too_little_is_read_by_all) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    with_planes(3, [&](member& me, auto& plane) {
        wanted to(me.rank(), 3);
        auto sd = to.dict();
        auto o = how(always);
        o.read_once_from = cairn::load_options().read_once_from;
        auto const r = cairn::load(sd, "c", o, me, plane, memory);
        must(to.is(from) && r.read_once.shared_bytes != 0 && r.read_once.once_bytes == 0,
             "it was broadcast");
    });
}

BOOST_AUTO_TEST_CASE(large_parts_travel_in_pieces) {
    cairn::memory_store memory;
    // 20 MiB each: more than a batch. One is received as it lies, one transposed.
    std::int64_t constexpr rows = 5, columns = 1 << 20;
    auto big = numbers(static_cast<std::size_t>(rows * columns), 0), turned = big;
    cairn::tensor_view const b(cairn::dtype::float32, {rows, columns}, big.data());
    cairn::tensor_view const t(cairn::dtype::float32, {columns, rows}, {1, columns}, big.data());
    cairn::save(cairn::state_dict{{"b", b}, {"t", t}}, "c", memory);
    with_planes(2, [&](member& me, auto& plane) {
        std::vector<float> one(big.size()), two(big.size());
        cairn::tensor_view const v(cairn::dtype::float32, {rows, columns}, one.data());
        cairn::tensor_view const w(cairn::dtype::float32, {columns, rows}, {1, columns},
                                   two.data());
        cairn::state_dict sd{{"b", v}, {"t", w}};
        (void)cairn::load(sd, "c", how(always), me, plane, memory);
        must(one == big && two == big, "other elements");
    });
}

/// Fails each operation on storage in turn, on each rank: the error reaches all ranks.

/// The last word of a planner counts: what one rank no longer wants, the rest read as ever.

BOOST_AUTO_TEST_CASE(what_a_planner_changes_in_the_end_is_not_shared) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    for (int odd : {0, 2}) {
        with_planes(3, [&](member& me, auto& plane) {
            wanted to(me.rank(), 3);
            auto sd = to.dict();
            auto const o = how(always);
            odd_planner planner{cairn::default_planner(o.planner)};
            bool const mine = me.rank() == odd;
            if (mine) planner.drop = "r0";
            planner.turn = mine;
            auto const r = cairn::load(sd, "c", o, me, plane, memory, planner);
            must(r.read_once.once_bytes == r.read_once.shared_bytes - 960, "it was shared");
            if (mine) {
                must(to.replicated[0] == std::vector<float>(to.replicated[0].size()), "r0");
                to.replicated[0] = from.replicated[0];
            }
            must(to.is(from), "a rank has another state");
        });
    }
}

/// Two shards of one box: both get it, on readers and on others.

BOOST_AUTO_TEST_CASE(a_part_that_a_rank_wants_twice_reaches_both_places) {
    cairn::memory_store memory;
    auto a = numbers(100, 1), b = numbers(100, 1000);
    cairn::save(cairn::state_dict{{"a", a}, {"b", b}}, "c", memory);
    with_planes(3, [&](member& me, auto& plane) {
        std::vector<float> a1(100), a2(100), b1(100);
        auto const whole = cairn::box::whole({100});
        cairn::sharded_view twice{{100}, cairn::dtype::float32, {}};
        for (auto* part : {&a1, &a2})
            twice.shards.emplace_back(
                whole, cairn::tensor_view(cairn::dtype::float32, {100}, part->data()));
        cairn::state_dict sd{{"a", twice}, {"b", b1}};
        auto const r = cairn::load(sd, "c", how(always), me, plane, memory);
        must(a1 == a && a2 == a && b1 == b && r.read_once.once_bytes == 800, "another state");
    });
}

BOOST_AUTO_TEST_CASE(a_load_in_the_background_reads_once_too) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    with_planes(2, [&](member& me, auto& plane) {
        wanted to(me.rank(), 2);
        auto sd = to.dict();
        auto const r =
            cairn::async_load(sd, "c", how(always), me, memory, plane, boost::asio::use_future)
                .get();
        must(to.is(from) && r.read_once.once_bytes == r.read_once.shared_bytes, "another state");
    });
}

/// The trainer's NCCL moves the tensors, threads (or TCP) the plans.
BOOST_AUTO_TEST_CASE(a_plane_of_nccl_moves_what_is_read_once) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    for (int n : {2, 4, 8}) {
        support::fake_world world(n);
        cairn::run_ranks(n, [&](member& me) {
            support::fake_plane plane(world.comm(me.rank()));
            wanted to(me.rank(), n);
            auto sd = to.dict();
            auto const r = cairn::load(sd, "c", how(always), me, plane, memory);
            must(to.is(from) && r.read_once.once_bytes >= 1000, "another state");
        });
        for (auto const& rule : world.broken_rules()) BOOST_ERROR("a rule was broken: " + rule);
        BOOST_TEST(world.in_use() == 0u);
    }
}

/// One after the other in row-major order, so that they lie side by side in a buffer.
BOOST_AUTO_TEST_CASE(pieces_of_a_large_part_are_all_of_it) {
    constexpr std::size_t element = 4;
    for (auto const& shape : std::vector<cairn::index_vector>{
             {}, {1}, {7}, {3, 4}, {3, 1, 4}, {2, 3, 5}, {1, 3, 2, 2}, {2, 2, 1, 3}}) {
        auto const bytes_of = [](const cairn::box& b) {
            return static_cast<std::uint64_t>(b.volume()) * element;
        };
        auto const whole = bytes_of(cairn::box::whole(shape));
        auto const strides = cairn::row_major_strides(shape);
        for (std::uint64_t most = element; most <= whole + element; ++most) {
            std::uint64_t at = 0;
            bool ended = false;
            cairn::detail::for_pieces(
                shape, element, most, [&](const cairn::box& piece, std::uint64_t bytes, bool last) {
                    BOOST_TEST_CONTEXT(to_string(piece) << " of " << to_string(shape)) {
                        BOOST_TEST_REQUIRE(!ended);
                        BOOST_TEST(lies_within(piece, shape));
                        BOOST_TEST(bytes == bytes_of(piece));
                        BOOST_TEST((bytes != 0 && bytes <= most));
                        std::uint64_t begins = 0, ends = element;
                        for (std::size_t d = 0; d < shape.size(); ++d) {
                            auto const step = static_cast<std::uint64_t>(strides[d]) * element;
                            begins += step * static_cast<std::uint64_t>(piece.offsets[d]);
                            ends += step * static_cast<std::uint64_t>(piece.end(d) - 1);
                        }
                        BOOST_TEST_REQUIRE(begins == at);
                        at += bytes;
                        BOOST_TEST(ends == at);  // nothing else between its ends
                        ended = last;
                    }
                });
            BOOST_TEST(ended);
            BOOST_TEST(at == whole);
        }
    }
}

/// Only a row-major chunk whose parts have checksums is read in pieces.
BOOST_AUTO_TEST_CASE(a_piece_of_an_item_is_a_part_of_both_sides) {
    cairn::index_vector const shape{4000, 3, 1001};
    auto const bytes = static_cast<std::uint64_t>(shape.product()) * 4;
    cairn::read_item const item{"w",       cairn::item_kind::shard, 3, 1, 0, {5, 0, 1}, {7, 0, 0},
                                {9, 2, 10}};
    for (int layout = 0; layout < 3; ++layout) {
        cairn::tensor_metadata t;
        t.shape = shape;
        cairn::chunk c{cairn::box::whole(shape), {"f", 0, bytes + 100, {}, {}}};
        auto const strides =
            layout == 1 ? cairn::row_major_strides(shape) : cairn::index_vector{3, 1, 12000};
        if (layout != 0) c.at.layout = cairn::item_layout{100, bytes, 1, 2, strides};
        t.chunks.push_back(c);
        BOOST_TEST(cairn::detail::can_be_cut(item, t) == (layout == 1));
    }
    auto expected = item;
    expected.source_offsets = {7, 1, 1};
    expected.target_offsets = {9, 1, 0};
    expected.shape = {3, 1, 10};
    BOOST_TEST((cairn::detail::piece_of(item, {{2, 1, 0}, {3, 1, 10}}) == expected));
}

BOOST_AUTO_TEST_SUITE_END()
