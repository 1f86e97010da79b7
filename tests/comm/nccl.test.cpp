// SPDX-License-Identifier: Apache-2.0
// NCCL's logic over a fake with NCCL's and CUDA's ordering rules; no GPU, no toolkit.
#include "conformance/communicator.hpp"
#include "support/nccl_ranks.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(nccl)

using cairn::errc;
using cairn::message;
using cairn::nccl_options;
using support::fake_group;
using support::fake_world;
using support::run_nccl_ranks;
using support::try_nccl_ranks;
using namespace std::chrono_literals;
using blocking = cairn::conformance::detail::blocking<fake_group>;

static_assert(cairn::Communicator<fake_group>);

namespace {

std::size_t constexpr mib = std::size_t{1} << 20;

nccl_options staging(std::size_t bytes) {
    nccl_options o;
    o.staging_bytes = bytes;
    return o;
}
/// Nothing that NCCL would not have stood, and nothing left over.
void check_clean(fake_world& world) {
    for (auto const& rule : world.broken_rules()) BOOST_ERROR("a rule was broken: " + rule);
    BOOST_TEST(world.in_use() == 0u);
}
cairn::error error_of(const std::exception_ptr& e) {
    try {
        if (e) std::rethrow_exception(e);
    } catch (const cairn::error& x) {
        return x;
    }
    return {cairn::error_code(), {}};
}
bool is(const cairn::error& e, errc code) { return e.code() == cairn::make_error_code(code); }
bool contains(const cairn::error& e, const std::string& part) {
    return std::string(e.what()).find(part) != std::string::npos;
}
/// On the threads of ranks, where Boost.Test's macros must not be used.
void must(bool ok, const char* what) {
    if (!ok) throw std::runtime_error(what);
}
cairn::deadline in(std::chrono::milliseconds t) { return std::chrono::steady_clock::now() + t; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_group_keeps_its_word) {
    for (int n : {1, 2, 4, 8}) {
        fake_world world(n);
        // Eight ranks keep eight copies of every rank's message.
        BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, {}, [&](fake_group& g) {
            cairn::conformance::check_communicator(g, n == 8 ? mib : 16 * mib);
        }));
        check_clean(world);
    }
}

BOOST_AUTO_TEST_CASE(through_little_memory_and_without_blocking) {
    for (int n : {1, 2, 4, 8}) {
        fake_world world(n, {.blocking = false});
        BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, staging(1), [&](fake_group& g) {
            cairn::conformance::check_communicator(g, 200'000);
        }));
        check_clean(world);
    }
}

BOOST_AUTO_TEST_CASE(groups_do_not_hear_each_other) {
    fake_world world(3), second(3);
    BOOST_CHECK_NO_THROW(run_nccl_ranks(world, 3, {}, [&](fake_group& g) {
        fake_group other(second.comm(g.rank()));
        cairn::conformance::check_interleaved(g, other);
        // Two groups in turns over one communicator.
        nccl_options o;
        o.epoch = 2;
        fake_group same(world.comm(g.rank()), o);
        cairn::conformance::check_interleaved(g, same);
    }));
    check_clean(world);
    check_clean(second);
}

BOOST_AUTO_TEST_CASE(groups_in_another_order_are_noticed) {
    fake_world world(2);
    auto const failures = try_nccl_ranks(world, 2, {}, [&](fake_group& g) {
        nccl_options o;
        o.epoch = 2;
        fake_group same(world.comm(g.rank()), o);
        blocking{g.rank() == 0 ? g : same}.barrier();
    });
    for (auto const& e : failures) BOOST_TEST(is(error_of(e), errc::invalid_argument));
    check_clean(world);
}

BOOST_AUTO_TEST_CASE(misuse_is_refused) {
    for (int n : {1, 2, 4, 8}) {
        fake_world world(n);
        BOOST_CHECK_NO_THROW(run_nccl_ranks(
            world, n, {}, [](fake_group& g) { cairn::conformance::check_wrong_root(g); }));
        check_clean(world);
        if (n == 1) continue;
        fake_world another(n);
        BOOST_CHECK_NO_THROW(run_nccl_ranks(
            another, n, {}, [](fake_group& g) { cairn::conformance::check_mismatch(g); }));
        check_clean(another);
    }
    // One rank alone is wrong: all hear of it.
    fake_world world(3);
    auto const failures = try_nccl_ranks(world, 3, {}, [](fake_group& g) {
        std::vector<message> two(2);
        (void)blocking{g}.scatter(g.rank() == 1 ? std::move(two) : std::vector<message>(), 1);
    });
    for (auto const& e : failures) {
        BOOST_TEST(is(error_of(e), errc::invalid_argument));
        BOOST_TEST(contains(error_of(e), "rank 1"));
    }
    check_clean(world);
}

/// Rank 1 is a program that says these bytes in place of its headers, until rank 0 has failed.
cairn::error failure_beside(const std::vector<cairn::detail::nccl_header>& said) {
    fake_world world(2);
    cairn::error got(cairn::error_code(), {});
    std::thread zero([&] {
        fake_group g(world.comm(0));
        try {
            (void)blocking{g}.gather({}, 0);
        } catch (const cairn::error& e) {
            got = e;
        }
    });
    {
        std::atomic<bool> cancelled{false};
        cairn::detail::nccl_lane<support::fake_nccl> lane(
            world.comm(1), nccl_options{}.staging_bytes, cancelled);
        cairn::detail::nccl_payload payload(lane);
        for (auto h : said) {
            h.slice = lane.slice();
            std::memcpy(lane.host(payload.own(sizeof h)), &h, sizeof h);
            payload.all_gather_staged(sizeof h, sizeof h, "speak");
        }
    }
    zero.join();
    check_clean(world);
    return got;
}

BOOST_AUTO_TEST_CASE(headers_that_cannot_be_are_refused) {
    cairn::detail::nccl_header h;
    h.kind = cairn::detail::exchange_kind::gather;
    auto ready = h;
    ready.stage = cairn::detail::nccl_header::stage_type::ready;
    // More than any memory: this rank says so, before anything moves.
    h.size = std::uint64_t{1} << 63;
    auto const large = failure_beside({h, ready});
    BOOST_TEST(is(large, errc::rank_failed));
    BOOST_TEST(contains(large, std::to_string(h.size)));
    h.magic = {'n', 'o', 'n', 'e'};
    BOOST_TEST(is(failure_beside({h}), errc::invalid_argument));
    h.magic = ready.magic;
    h.kind = static_cast<cairn::detail::exchange_kind>(77);
    BOOST_TEST(is(failure_beside({h}), errc::invalid_argument));
    h.gave_up = 12345;
    BOOST_TEST(is(failure_beside({h}), errc::rank_failed));
}

BOOST_AUTO_TEST_CASE(deadlines_end_a_wait) {
    for (int n : {2, 4, 8}) {
        for (int late : {0, n - 1}) {
            std::latch told(n - 1);
            fake_world world(n);
            BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, {}, [&](fake_group& g) {
                cairn::conformance::check_deadline(
                    g, late, [&] { told.wait(); }, [&] { told.count_down(); });
            }));
            BOOST_TEST(world.broken_rules().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_deadline_says_that_nobody_can_be_named) {
    fake_world world(2);
    auto const failures = try_nccl_ranks(world, 2, {}, [](fake_group& g) {
        if (g.rank() == 0) blocking{g, in(20ms)}.barrier();
    });
    BOOST_TEST(is(error_of(failures[0]), errc::timed_out));
    BOOST_TEST(contains(error_of(failures[0]), "NCCL cannot say which"));
    BOOST_TEST(contains(error_of(failures[0]), "ncclCommAbort"));
}

BOOST_AUTO_TEST_CASE(it_can_be_cancelled) {
    for (int n : {3, 4, 8}) {
        for (int absent : {0, n - 1}) {
            std::latch told(n - 1);
            fake_world world(n);
            BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, {}, [&](fake_group& g) {
                cairn::conformance::check_cancel(
                    g, absent, [&] { told.wait(); }, [&] { told.count_down(); });
            }));
            BOOST_TEST(world.broken_rules().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_cancelled_between_two_exchanges_tells_the_others) {
    fake_world world(3);
    auto const failures = try_nccl_ranks(world, 3, {}, [](fake_group& g) {
        blocking{g}.barrier();
        if (g.rank() == 2) g.cancel();
        (void)blocking{g}.broadcast(message(10), 1);
    });
    for (auto const& e : failures) BOOST_TEST(is(error_of(e), errc::cancelled));
    BOOST_TEST(contains(error_of(failures[0]), "rank 2"));
    BOOST_TEST(world.broken_rules().empty());
}

BOOST_AUTO_TEST_CASE(an_abort_that_the_user_allows_ends_it) {
    nccl_options o;
    o.abort_on_failure = true;
    fake_world world(3, {.blocking = true, .remote_errors = true});
    auto const failures = try_nccl_ranks(world, 3, o, [](fake_group& g) {
        must(!g.aborted(), "aborted before anything went wrong");
        if (g.rank() == 2) return;
        try {
            blocking{g, g.rank() == 0 ? in(20ms) : cairn::no_deadline}.barrier();
        } catch (...) {
            must(g.aborted(), "not aborted");
            throw;
        }
    });
    BOOST_TEST(is(error_of(failures[0]), errc::timed_out));
    // Rank 1 has no deadline: NCCL tells it, but not of whom.
    BOOST_TEST(is(error_of(failures[1]), errc::rank_failed));
    BOOST_TEST(error_of(failures[1]).context().rank == -1);
    check_clean(world);
}

void each_exchange_once(fake_group& g) {
    blocking b{g};
    bool const root = g.rank() == 1;
    (void)b.gather(message(9000), 1);
    (void)b.scatter(root ? std::vector<message>(3, message(9000)) : std::vector<message>(), 1);
    (void)b.broadcast(message(30000), 1);
    (void)b.all_gather(message(9000));
    b.barrier();
}

/// Every launch of one rank fails in turn, at once or later; the others hear of it from NCCL, or
/// from nobody and are cancelled.
BOOST_AUTO_TEST_CASE(an_error_of_nccl_at_each_launch_is_an_error) {
    auto const small = staging(3 * 4096);
    int launches = 0;
    {
        fake_world world(3);
        BOOST_CHECK_NO_THROW(run_nccl_ranks(world, 3, small, each_exchange_once));
        launches = world.launches(0);
        check_clean(world);
    }
    BOOST_TEST(launches > 10);
    for (int turn = 0; turn < launches * 4; ++turn) {
        bool const told = turn % 2 == 0;
        fake_world world(3, {.blocking = true, .remote_errors = told});
        world.inject(0, 1 + turn / 4, turn / 2 % 2 == 0);
        auto o = small;
        o.abort_on_failure = told;
        std::latch all_here(3), first_over(1), all_over(3);
        auto const failures = try_nccl_ranks(world, 3, o, [&](fake_group& g) {
            std::exception_ptr failed;
            std::thread other;
            if (g.rank() != 0 && !told)
                other = std::thread([&] {
                    first_over.wait();
                    g.cancel();
                });
            try {
                all_here.arrive_and_wait();
                each_exchange_once(g);
            } catch (...) {
                failed = std::current_exception();
            }
            if (g.rank() == 0) first_over.count_down();
            if (other.joinable()) other.join();
            all_over.arrive_and_wait();
            must(g.aborted() == told, "aborted without leave, or not");
            auto const again =
                cairn::conformance::detail::code_of([&] { blocking{g}.barrier(); });
            must(again == cairn::make_error_code(errc::poisoned), "not poisoned");
            if (failed) std::rethrow_exception(failed);
        });
        auto const first = error_of(failures[0]);
        BOOST_TEST((is(first, errc::rank_failed) && contains(first, "rank 0") &&
                    contains(first, "injected")), first.what());
        for (std::size_t r : {1u, 2u}) {
            auto const e = error_of(failures[r]);
            BOOST_TEST(is(e, told ? errc::rank_failed : errc::cancelled), e.what());
        }
        if (told)
            check_clean(world);
        else
            BOOST_TEST(world.broken_rules().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_group_that_cannot_be_made_says_why) {
    fake_world world(1);
    auto const device = std::exchange(world.comm(0)->device, 1 << 20);
    BOOST_CHECK_EXCEPTION(fake_group(world.comm(0)), cairn::error,
                          [](auto const& e) { return contains(e, "no such device"); });
    world.comm(0)->device = device;
}

BOOST_AUTO_TEST_CASE(a_group_that_ends_ends_its_exchange) {
    fake_world world(2);
    errc constexpr want = errc::cancelled;
    cairn::error got(cairn::error_code(), {});
    std::latch done(1);
    {
        fake_group g(world.comm(0));
        g.barrier(cairn::no_deadline, cairn::completion<cairn::done_t>([&](std::exception_ptr e,
                                                                           auto) {
                      got = error_of(e);
                      done.count_down();
                  }));
    }
    done.wait();
    BOOST_TEST(is(got, want));
}

/// Rows of one matrix; saved by 4, loaded by 2.
BOOST_AUTO_TEST_CASE(blocking_verbs_save_and_load) {
    cairn::memory_store store;
    int constexpr rows = 8, columns = 5;
    auto const state = [&](std::vector<float>& mine, int rank, int ranks) {
        auto const box =
            cairn::boxes_of({rows, columns}, cairn::device_mesh::line(ranks),
                            {cairn::shard_along{0}}, rank).at(0);
        cairn::tensor_view const v(cairn::dtype::float32, box.lengths,
                                   reinterpret_cast<std::byte*>(mine.data()));
        return cairn::sharded_view{{rows, columns}, cairn::dtype::float32, {cairn::shard(box, v)}};
    };
    fake_world world(4);
    BOOST_CHECK_NO_THROW(run_nccl_ranks(world, 4, {}, [&](fake_group& g) {
        std::vector<float> mine(rows / 4 * columns);
        std::iota(mine.begin(), mine.end(), static_cast<float>(g.rank()) * 10.0f);
        cairn::state_dict sd{{"w", state(mine, g.rank(), 4)}, {"step", 7}};
        cairn::save(sd, "step_7", g, store);
    }));
    check_clean(world);
    fake_world other(2);
    BOOST_CHECK_NO_THROW(run_nccl_ranks(other, 2, {}, [&](fake_group& g) {
        std::vector<float> mine(rows / 2 * columns, -1.0f), want(mine.size());
        int step = 0;
        cairn::state_dict sd{{"w", state(mine, g.rank(), 2)}, {"step", std::ref(step)}};
        cairn::load(sd, "step_7", g, store);
        std::iota(want.begin(), want.end(), static_cast<float>(g.rank()) * 20.0f);
        must(mine == want && step == 7, "other values than those saved");
    }));
    check_clean(other);
}

BOOST_AUTO_TEST_SUITE_END()
