// SPDX-License-Identifier: Apache-2.0
// Several data planes in one load: replicas of each shard, as in hybrid sharding.
#include "odd_planner.hpp"
#include "replicas.hpp"
#include "support/counting_store.hpp"

#include <cairn/load/detail/read_once/plane_groups.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(plane_groups)

using namespace replicas;
using cairn::errc;
using cairn::detail::plane_place;

namespace {

using groups = std::vector<std::vector<int>>;

/// Which plane each of 2 n ranks is on: two shards of n replicas, next to each other or in turns.
std::vector<int> planes_of(int replicas, bool in_turns) {
    std::vector<int> out;
    for (int r = 0; r < 2 * replicas; ++r) out.push_back(in_turns ? r % 2 : r / replicas);
    return out;
}
int shard_of(int rank, const std::vector<int>& plane_of) {
    return plane_of[static_cast<std::size_t>(rank)];
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_are_grouped_by_plane) {
    auto const grouped = [](std::vector<plane_place> p) { return cairn::detail::plane_groups(p); };
    plane_place const none;
    BOOST_TEST((grouped({none, none}) == groups{}));
    BOOST_TEST((grouped({{true, 0, 0, 1}}) == groups{{0}}));
    BOOST_TEST((grouped({{true, 0, 1, 2}, {true, 0, 0, 2}}) == groups{{1, 0}}));
    BOOST_TEST(
        (grouped({{true, 7, 0, 2}, {true, -1, 0, 1}, {true, 7, 1, 2}}) == groups{{1}, {0, 2}}));

    auto const refused = [&](std::vector<plane_place> p, int rank, std::string says) {
        BOOST_TEST_CONTEXT(says) {
            BOOST_CHECK_EXCEPTION(grouped(p), cairn::error, [&](const cairn::error& e) {
                BOOST_TEST(std::string(e.what()).find(says) != std::string::npos, e.what());
                return e.code() == cairn::make_error_code(errc::invalid_argument) &&
                       e.context().rank == rank;
            });
        }
    };
    refused({none, {true, 0, 0, 1}}, 1, "one here, and none on rank 0");
    refused({{true, 0, 0, 2}, none}, 1, "none here, and one on rank 0");
    // Two planes of two ranks each without numbers.
    refused({{true, 0, 0, 2}, {true, 0, 1, 2}, {true, 0, 0, 2}, {true, 0, 1, 2}}, 2,
            "a different rank of the data plane than rank 0, found rank 0 of 2 of data plane 0");
    refused({{true, 3, 0, 2}, {true, 3, 1, 3}, {true, 1, 0, 1}}, 1,
            "expected data plane 3 to have 2 ranks");
    refused({{true, 0, 1, 2}, {true, 1, 0, 1}}, 0, "no rank that is its rank 0");
    refused({{true, 0, 0, 2}, {true, 1, 0, 1}}, 0, "no rank that is its rank 1");
    for (plane_place const odd : {plane_place{true, 0, 2, 2},
                                  {true, 0, -1, 2},
                                  {true, 0, 0, 0},
                                  {true, 0, 0, 3},
                                  {true, 0, 0, 2'000'000'000}})
        refused({odd, {true, 0, 1, 2}}, 0, "of the job's 2 ranks");
}

BOOST_AUTO_TEST_CASE(each_plane_reads_what_its_ranks_want) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    cairn::torch_reader reader(memory);
    reader.reset("c");
    auto const meta = reader.read_metadata();
    for (int const replicas : {2, 3}) {
        for (bool const in_turns : {false, true}) {
            // Shard 0's replicas want r5 too: of the middle one only these read once.
            constexpr std::uint64_t all_of_0 = 6 * 960 + 480 + 200 + 24;
            for (std::uint64_t const least : {always, all_of_0, never}) {
                auto const plane_of = planes_of(replicas, in_turns);
                int const n = 2 * replicas;
                std::vector<cairn::read_once_report> reports(static_cast<std::size_t>(n));
                support::counting_store<cairn::memory_store> store(memory);
                with_planes(
                    n,
                    [&](member& me, auto& plane) {
                        wanted to(shard_of(me.rank(), plane_of), 2);
                        auto sd = to.dict();
                        auto const r = cairn::load(sd, "c", how(least), me, plane, store);
                        must(to.is(from), "a rank has another state");
                        reports[static_cast<std::size_t>(me.rank())] = r.read_once;
                    },
                    plane_of);
                BOOST_TEST_CONTEXT(replicas << " replicas, from " << least << " bytes on") {
                    for (int r = 0; r < n; ++r) {
                        auto const& report = reports[static_cast<std::size_t>(r)];
                        bool const first = shard_of(r, plane_of) == 0;
                        // All that a rank wants, for its replicas want the same.
                        std::uint64_t const all = all_of_0 - (first ? 0 : 960);
                        BOOST_TEST(report.shared_bytes == all);
                        BOOST_TEST(report.once_bytes == (all >= least ? all : 0));
                    }
                    if (least == all_of_0) continue;
                    int const each = least == always ? 1 : replicas;
                    for (auto const& [fqn, entry] : meta.entries) {
                        auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
                        if (t == nullptr || fqn == "s") continue;
                        auto const& at = t->chunks[0].at;
                        auto const r = store.reads(at.file, at.offset + at.layout->payload_offset,
                                                   at.layout->payload_length);
                        auto const planes = fqn == "tied_2" ? 0
                                            : fqn == "r5"   ? 1
                                                            : 2;  // that read it
                        auto const times = each * planes;
                        BOOST_TEST((r == std::pair(times, times)), fqn);
                    }
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(planes_may_differ_in_size_and_a_rank_may_be_alone) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    std::vector<int> const plane_of{4, 9, 4, 2, 4, 2};
    with_planes(
        6,
        [&](member& me, auto& plane) {
            wanted to(shard_of(me.rank(), plane_of) == 4 ? 0 : 1, 2);
            auto sd = to.dict();
            auto const r = cairn::load(sd, "c", how(always), me, plane, memory);
            must(to.is(from), "a rank has another state");
            must((r.read_once.shared_bytes == 0) == (plane.size() == 1), "of one rank alone");
            must((r.read_once.once_bytes == 0) == (plane.size() == 1), "what was sent");
        },
        plane_of);
}

BOOST_AUTO_TEST_CASE(a_failure_on_one_plane_is_the_error_of_all) {
    auto const plane_of = planes_of(2, true);
    auto const of_rank = [&](int rank) { return wanted(shard_of(rank, plane_of), 2); };
    int failed = 0;
    for (int bad = 0; bad < 4; ++bad) failed += fail_reads_in_turn(bad, 4, of_rank, plane_of);
    BOOST_TEST(failed > 20 / support::stride_if_sanitized(3));
}

BOOST_AUTO_TEST_CASE(a_broken_plane_is_named_by_the_ranks_of_the_job) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    auto const plane_of = planes_of(2, true);
    // Rank 3 of the job is rank 1 of 2 of plane 1.
    auto const errors = try_with_planes(
        4,
        [&](member& me, auto& plane) {
            wanted to(shard_of(me.rank(), plane_of), 2);
            auto sd = to.dict();
            bad_plane b(plane, me.rank() == 3 ? 0 : -1, true);
            (void)cairn::load(sd, "c", how(always), me, b, memory);
        },
        plane_of);
    for (auto const& e : errors) {
        BOOST_REQUIRE(e);
        BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [](const auto& x) {
            // Its fellow says what became of the plane; ranks of the other plane have no failure.
            return x.state_modified() &&
                   std::all_of(
                       x.failures().begin(), x.failures().end(),
                       [](const auto& f) { return f.where.rank == 1 || f.where.rank == 3; }) &&
                   std::string(x.what()).find("rank 3: ") != std::string::npos &&
                   std::string(x.what()).find("as rank 1 of 2 of data plane 1: rank 1: ") !=
                       std::string::npos;
        });
    }
}

/// What one rank's planner changes in the end concerns its own plane alone.
BOOST_AUTO_TEST_CASE(what_a_planner_drops_is_not_shared_on_its_plane) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    auto const plane_of = planes_of(2, false);
    for (int const odd : {0, 3}) {
        with_planes(
            4,
            [&](member& me, auto& plane) {
                wanted to(shard_of(me.rank(), plane_of), 2);
                auto sd = to.dict();
                auto const o = how(always);
                odd_planner planner{cairn::default_planner(o.planner)};
                if (me.rank() == odd) planner.drop = "r0";
                auto const r = cairn::load(sd, "c", o, me, plane, memory, planner);
                bool const concerned = shard_of(me.rank(), plane_of) == shard_of(odd, plane_of);
                must(r.read_once.once_bytes == r.read_once.shared_bytes - (concerned ? 960 : 0),
                     "what was sent");
                if (me.rank() == odd) to.replicated[0] = from.replicated[0];
                must(to.is(from), "a rank has another state");
            },
            plane_of);
    }
}

/// Planes of which each has only two ranks say they are one: refused before memory changes.
BOOST_AUTO_TEST_CASE(planes_with_one_number_are_refused) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    auto const plane_of = planes_of(2, false);
    struct zero : bad_plane<cairn::communicator_data_plane<member>> {
        using bad_plane::bad_plane;
        int plane_id() const { return 0; }
    };
    static_assert(cairn::DataPlane<zero>);
    auto const errors = try_with_planes(
        4,
        [&](member& me, auto& plane) {
            wanted to(shard_of(me.rank(), plane_of), 2);
            auto sd = to.dict();
            zero p(plane, -1, false);
            (void)cairn::load(sd, "c", how(always), me, p, memory);
        },
        plane_of);
    for (auto const& e : errors) {
        BOOST_REQUIRE(e);
        BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [](const auto& x) {
            return x.code() == cairn::make_error_code(errc::invalid_argument) &&
                   x.context().rank == 2 && !x.state_modified() &&
                   std::string(x.what()).find("its own `plane_id`") != std::string::npos;
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()
