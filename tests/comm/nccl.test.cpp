// SPDX-License-Identifier: Apache-2.0
// NCCL's logic over a fake with NCCL's and CUDA's ordering rules; no GPU, no toolkit.
#include "support/nccl_checks.hpp"
#include "support/nccl_ranks.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/nccl/basic_bootstrap.hpp>
#include <cairn/testing/communicator.hpp>
#include <cairn/testing/data_plane.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(nccl)

using cairn::errc;
using cairn::nccl_plane_options;
using cairn::detail::nccl_header;
using support::fake_nccl;
using support::fake_plane;
using support::fake_world;
using support::run_nccl_ranks;
using support::try_nccl_ranks;
using namespace support::nccl_checks;
using namespace std::chrono_literals;

static_assert(cairn::DataPlane<fake_plane> && !cairn::BackgroundDataPlane<fake_plane>);

namespace {

/// Rank `root` sends `n` bytes.
void send(fake_plane& p, std::size_t n, int root = 0, cairn::deadline by = cairn::no_deadline) {
    std::vector<std::byte> memory(n);
    cairn::testing::detail::broadcast_and_wait(p, memory, root, by);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_plane_keeps_its_word) {
    for (int n : {1, 2, 4, 8}) {
        for (bool const blocking : {true, false}) {
            // Through the least staging memory that there can be, and through much.
            for (std::size_t memory : {std::size_t{1}, 64 * mib}) {
                fake_world world(n, {.blocking = blocking});
                BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, staging(memory), [&](fake_plane& p) {
                    cairn::testing::check_broadcasts(p, memory == 1 ? 30'001 : mib + 1);
                    must(p.plane_id() == 0, "another number");
                }));
                check_clean(world);
            }
        }
        fake_world world(n);
        BOOST_CHECK_NO_THROW(run_nccl_ranks(
            world, n, {}, [](fake_plane& p) { cairn::testing::check_cancelled_plane(p); }));
        BOOST_TEST(world.broken_rules().empty());
    }
}

BOOST_AUTO_TEST_CASE(two_planes_share_a_communicator_in_turns) {
    fake_world world(3);
    BOOST_CHECK_NO_THROW(run_nccl_ranks(world, 3, {}, [&](fake_plane& p) {
        fake_plane second(world.comm(p.rank()), 2);
        for (int i = 0; i < 3; ++i) {
            cairn::testing::check_broadcasts(p, 5000);
            cairn::testing::check_broadcasts(second, 5000);
        }
    }));
    check_clean(world);
    // In different orders they are told apart.
    fake_world other(2);
    auto const failures = try_nccl_ranks(other, 2, {}, [&](fake_plane& p) {
        fake_plane second(other.comm(p.rank()), 2);
        send(p.rank() == 0 ? p : second, 10);
    });
    for (auto const& e : failures) BOOST_TEST(is(error_of(e), errc::invalid_argument));
    check_clean(other);
}

BOOST_AUTO_TEST_CASE(misuse_is_refused_on_all_ranks) {
    struct wrong {
        const char* says;
        std::size_t bytes;
        int root;
    };
    for (auto const& w : {wrong{"a root from 0 to 2", 10, 3}, wrong{"a root from 0 to 2", 10, -1},
                          wrong{"with root 1, 10 bytes", 10, 1},
                          wrong{"with root 0, 11 bytes", 11, 0}, wrong{"0 bytes", 0, 0}}) {
        fake_world world(3);
        auto const failures = try_nccl_ranks(world, 3, {}, [&](fake_plane& p) {
            send(p, p.rank() == 1 ? w.bytes : 10, p.rank() == 1 ? w.root : 0);
        });
        for (std::size_t r = 0; r < 3; ++r) {
            auto const e = error_of(failures[r]);
            BOOST_TEST(is(e, errc::invalid_argument), e.what());
            if (r == 1 || w.root == 0 || w.root == 1) BOOST_TEST(contains(e, w.says), e.what());
            BOOST_TEST(contains(e, "rank 1"), e.what());
        }
        check_clean(world);
    }
}

/// Rank 1 is a program that says these bytes in place of its headers, until rank 0 has failed.
cairn::error failure_beside(const std::vector<nccl_header>& said) {
    fake_world world(2);
    cairn::error got(cairn::error_code(), {});
    std::thread zero([&] {
        fake_plane p(world.comm(0));
        try {
            send(p, 100);
        } catch (const cairn::error& e) {
            got = e;
        }
    });
    {
        std::atomic<bool> cancelled{false};
        cairn::detail::nccl_staging<fake_nccl> lane(world.comm(1), 8192, sizeof(nccl_header),
                                                    cancelled);
        for (auto h : said) {
            std::memcpy(lane.host_headers(sizeof h), &h, sizeof h);
            lane.to_device(lane.device_headers(sizeof h), lane.host_headers(sizeof h), sizeof h);
            lane.launched(
                fake_nccl::all_gather(lane.device_headers(sizeof h), lane.device_headers(),
                                      sizeof h, lane.comm(), lane.stream()),
                "speak");
            lane.mark(0);
            lane.wait(0, "speak");
        }
    }
    zero.join();
    check_clean(world);
    return got;
}

BOOST_AUTO_TEST_CASE(headers_that_cannot_be_are_refused) {
    nccl_header h;
    h.size = 100;
    h.staging = nccl_plane_options{}.staging_bytes / 2;
    auto bad = h;
    bad.magic = {'n', 'o', 'n', 'e'};
    BOOST_TEST(is(failure_beside({bad}), errc::invalid_argument));
    bad = h;
    bad.size = std::uint64_t{1} << 63;
    BOOST_TEST(is(failure_beside({bad}), errc::invalid_argument));
    bad = h;
    bad.stage = static_cast<nccl_header::stage_type>(9);
    BOOST_TEST(is(failure_beside({bad}), errc::invalid_argument));
    bad = h;
    bad.staging = 1;
    BOOST_TEST(contains(failure_beside({bad}), "pieces of 1 bytes"));
    bad = h;
    bad.gave_up = 12345;
    BOOST_TEST(is(failure_beside({bad}), errc::rank_failed));
    // It ends its call once all have called.
    bad = h;
    bad.stage = nccl_header::stage_type::ready;
    bad.gave_up = static_cast<int>(errc::cancelled);
    BOOST_TEST(is(failure_beside({h, bad}), errc::cancelled));
}

BOOST_AUTO_TEST_CASE(deadlines_end_a_wait) {
    for (int n : {2, 4, 8}) {
        for (int late : {0, n - 1}) {
            std::latch told(n - 1);
            fake_world world(n);
            auto const failures = try_nccl_ranks(world, n, {}, [&](fake_plane& p) {
                if (p.rank() == late) {
                    told.wait();
                    return send(p, 100);  // hears of the others' end
                }
                try {
                    send(p, 100, 0, in(30ms));
                } catch (...) {
                    told.count_down();
                    throw;
                }
            });
            for (int r = 0; r < n; ++r) {
                auto const e = error_of(failures[static_cast<std::size_t>(r)]);
                BOOST_TEST(is(e, r == late ? errc::poisoned : errc::timed_out), e.what());
                if (r == late) continue;
                BOOST_TEST((contains(e, "NCCL cannot say which") && contains(e, "ncclCommAbort")),
                           e.what());
            }
            BOOST_TEST(world.broken_rules().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_broadcast_can_be_cancelled) {
    for (int n : {2, 4, 8}) {
        for (int absent : {0, n - 1}) {
            std::latch told(n - 1);
            fake_world world(n);
            auto const failures = try_nccl_ranks(world, n, {}, [&](fake_plane& p) {
                if (p.rank() == absent) {
                    told.wait();
                    return send(p, 100);
                }
                std::thread other([&] {
                    std::this_thread::sleep_for(10ms);
                    p.cancel();
                });
                try {
                    send(p, 100);
                } catch (...) {
                    other.join();
                    told.count_down();
                    throw;
                }
            });
            for (auto const& e : failures)
                BOOST_TEST(is(error_of(e), errc::cancelled), error_of(e).what());
            BOOST_TEST(world.broken_rules().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_cancelled_between_two_broadcasts_tells_the_others) {
    fake_world world(3);
    auto const failures = try_nccl_ranks(world, 3, {}, [](fake_plane& p) {
        send(p, 10);
        if (p.rank() == 2) p.cancel();
        send(p, 10, 1);
    });
    for (auto const& e : failures) BOOST_TEST(is(error_of(e), errc::cancelled));
    BOOST_TEST(contains(error_of(failures[0]), "rank 2"));
    BOOST_TEST(world.broken_rules().empty());
}

BOOST_AUTO_TEST_CASE(an_abort_that_the_user_allows_ends_a_broadcast) {
    nccl_plane_options o;
    o.abort_on_failure = true;
    fake_world world(3, {.blocking = true, .remote_errors = true});
    auto const failures = try_nccl_ranks(world, 3, o, [](fake_plane& p) {
        must(!p.aborted(), "aborted before anything went wrong");
        if (p.rank() == 2) return;
        try {
            send(p, 10, 0, p.rank() == 0 ? in(20ms) : cairn::no_deadline);
        } catch (...) {
            must(p.aborted(), "not aborted");
            throw;
        }
    });
    BOOST_TEST(is(error_of(failures[0]), errc::timed_out));
    // Rank 1 has no deadline: NCCL tells it, but not of whom.
    BOOST_TEST(is(error_of(failures[1]), errc::rank_failed));
    BOOST_TEST(error_of(failures[1]).context().rank == -1);
    check_clean(world);
}

/// Every launch of one rank fails in turn, at once or later; the others hear of it from NCCL, or
/// from nobody and are cancelled.
BOOST_AUTO_TEST_CASE(an_error_of_nccl_at_each_launch_is_an_error) {
    auto const small = staging(1);
    auto const both_ways = [](fake_plane& p) {
        send(p, 30'000, 0);
        send(p, 9000, 1);
    };
    int launches = 0;
    {
        fake_world world(3);
        BOOST_CHECK_NO_THROW(run_nccl_ranks(world, 3, small, both_ways));
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
        auto const failures = try_nccl_ranks(world, 3, o, [&](fake_plane& p) {
            std::exception_ptr failed;
            std::thread other;
            if (p.rank() != 0 && !told)
                other = std::thread([&] {
                    first_over.wait();
                    p.cancel();
                });
            try {
                all_here.arrive_and_wait();
                both_ways(p);
            } catch (...) {
                failed = std::current_exception();
            }
            if (p.rank() == 0) first_over.count_down();
            if (other.joinable()) other.join();
            all_over.arrive_and_wait();
            must(p.aborted() == told, "aborted without leave, or not");
            auto const again = cairn::testing::detail::code_of([&] { send(p, 10); });
            must(again == cairn::make_error_code(errc::poisoned), "not poisoned");
            if (failed) std::rethrow_exception(failed);
        });
        auto const first = error_of(failures[0]);
        BOOST_TEST((is(first, errc::rank_failed) && contains(first, "rank 0") &&
                    contains(first, "injected")),
                   first.what());
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

BOOST_AUTO_TEST_CASE(a_plane_that_cannot_be_made_says_why) {
    fake_world world(1);
    auto const device = std::exchange(world.comm(0)->device, 1 << 20);
    BOOST_CHECK_EXCEPTION(fake_plane(world.comm(0)), cairn::error,
                          [](auto const& e) { return contains(e, "no such device"); });
    world.comm(0)->device = device;
}

BOOST_AUTO_TEST_CASE(a_plane_that_ends_ends_its_broadcast) {
    fake_world world(2);
    cairn::error got(cairn::error_code(), {});
    std::latch done(1);
    std::vector<std::byte> memory(10);
    {
        fake_plane p(world.comm(0));
        p.broadcast(memory, 0, cairn::no_deadline,
                    cairn::completion<cairn::done_t>([&](std::exception_ptr e, auto) {
                        got = error_of(e);
                        done.count_down();
                    }));
        // One at a time.
        BOOST_CHECK_THROW(send(p, 10), cairn::error);
    }
    done.wait();
    BOOST_TEST(is(got, errc::cancelled));
}

/// What a trainer does that has nothing but an ncclComm_t.
BOOST_AUTO_TEST_CASE(the_ranks_of_a_communicator_make_a_group_over_tcp) {
    for (int n : {1, 4}) {
        fake_world world(n);
        BOOST_CHECK_NO_THROW(support::rethrow_first(support::try_on_threads(n, [&](int r) {
            auto g = cairn::basic_tcp_group_from_nccl<fake_nccl>(world.comm(r));
            must(g.rank() == r && g.size() == n, "another rank or size");
            must(fake_nccl::current_device() == -1, "the caller's device has changed");
            cairn::testing::check_exchanges(g, 1024);
        })));
        check_clean(world);
    }
    // A rank that does not call it ends the others' wait.
    fake_world world(2);
    cairn::tcp_options o;
    o.join_timeout = 100ms;
    auto const late = support::failure_of(
        [&] { (void)cairn::basic_tcp_group_from_nccl<fake_nccl>(world.comm(0), o); });
    BOOST_TEST(late.find("NCCL cannot say which") != late.npos, late);
    // Rank 0 has no id: all hear why.
    fake_world other(2);
    std::vector<std::string> said(2);
    (void)support::try_on_threads(2, [&](int r) {
        cairn::tcp_options bad;
        if (r == 0) bad.interfaces = "no-such-interface";
        said[static_cast<std::size_t>(r)] = support::failure_of(
            [&] { (void)cairn::basic_tcp_group_from_nccl<fake_nccl>(other.comm(r), bad); });
    });
    for (auto const& s : said) BOOST_TEST(s.find("no-such-interface") != s.npos, s);
}

BOOST_AUTO_TEST_SUITE_END()
