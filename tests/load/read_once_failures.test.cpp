// SPDX-License-Identifier: Apache-2.0
// What is read once and broadcast fails on all ranks or on none, and nobody waits for ever.
#include "odd_planner.hpp"
#include "replicas.hpp"
#include "support/counting_store.hpp"
#include "support/meddling_group.hpp"
#include "support/sanitized.hpp"

#include <cairn/async_load.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_once_failures)

using namespace replicas;
using cairn::errc;

BOOST_AUTO_TEST_CASE(a_failed_read_is_the_error_of_all) {
    static constexpr int n = 3;
    int failed = 0;
    for (int bad = 0; bad < n; ++bad)
        failed += fail_reads_in_turn(bad, n, [](int rank) { return wanted(rank, n); });
    BOOST_TEST(failed > 20 / support::stride_if_sanitized(3));
}

BOOST_AUTO_TEST_CASE(a_failed_broadcast_is_the_error_of_all) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    static constexpr int n = 3;
    support::failure_points broadcasts(2);
    for (bool throws : {false, true}) {
        for (bool one_group : {false, true}) {
            for (int bad = 0; bad < n; ++bad) {
                int failed = 0;
                for (int at = broadcasts.first();; at += broadcasts.stride()) {
                    std::atomic<int> calls{0};
                    auto const errors = try_with_planes(n, [&](member& me, auto& apart) {
                        wanted to(me.rank(), n);
                        auto sd = to.dict();
                        cairn::communicator_data_plane same(me);
                        bad_plane plane(one_group ? same : apart, me.rank() == bad ? at : -1,
                                        throws);
                        try {
                            (void)cairn::load(sd, "c", how(always), me, plane, memory);
                        } catch (const cairn::error& e) {
                            if (me.rank() == bad) calls = plane.calls();
                            must(e.state_modified(), "memory was said to be as it was");
                            must(one_group && me.rank() != bad
                                     ? true
                                     : std::string(e.what()).find("injected") != std::string::npos,
                                 "an error that does not say why");
                            throw;
                        }
                        if (me.rank() == bad) calls = plane.calls();
                        must(to.is(from), "a rank has another state");
                    });
                    auto const bad_ones = n - std::count(errors.begin(), errors.end(), nullptr);
                    BOOST_TEST_CONTEXT("rank " << bad << ", broadcast " << at) {
                        BOOST_TEST((bad_ones == 0 || bad_ones == n));
                        BOOST_TEST((bad_ones == 0) == (calls <= at));
                    }
                    if (bad_ones == 0) break;
                    for (auto const& e : errors)
                        BOOST_CHECK_THROW(std::rethrow_exception(e), cairn::error);
                    ++failed;
                }
                BOOST_TEST(failed >= 2 / broadcasts.stride());
            }
        }
    }
}

/// An exchange breaks on one rank alone, with the data plane on another group: the others may wait
/// for that rank in a broadcast by then, and nobody leaves that group before all have ended.
BOOST_AUTO_TEST_CASE(a_broken_exchange_ends_the_broadcasts_of_the_others) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    static constexpr int n = 3;
    int in_broadcasts = 0;
    for (int bad = 0; bad < n; ++bad) {
        int k = 0;
        for (std::atomic<bool> reached{true}; reached; ++k) {
            reached = false;
            std::atomic<int> ended{0};
            std::atomic<bool> cut{false};
            auto const errors = try_with_planes(n, [&](member& me, auto& plane) {
                support::meddling_group comm(me, [&](int at, auto&) {
                    if (me.rank() != bad || at != k) return;
                    reached = true;
                    throw cairn::error(errc::io, {.found = "injected"});
                });
                auto const stay = [&] {
                    ++ended;
                    while (ended != n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                };
                wanted to(me.rank(), n);
                auto sd = to.dict();
                auto o = how(always);
                o.exchange_timeout = std::chrono::seconds(30);  // nobody waits for it
                bad_plane counted(plane, -1, false);
                try {
                    (void)cairn::load(sd, "c", o, comm, counted, memory);
                } catch (...) {
                    cut = cut || (me.rank() != bad && counted.calls() == 1);
                    stay();
                    throw;
                }
                stay();
                must(to.is(from), "a rank has another state");
            });
            in_broadcasts += cut;
            BOOST_TEST_CONTEXT("exchange " << k << " on rank " << bad) {
                BOOST_TEST((errors[static_cast<std::size_t>(bad)] != nullptr) == reached.load());
                for (auto const& e : errors) {
                    if (!e) continue;
                    BOOST_REQUIRE_EXCEPTION(
                        std::rethrow_exception(e), cairn::error, [](const auto& x) {
                            return x.code() != cairn::make_error_code(errc::timed_out);
                        });
                }
            }
        }
        BOOST_TEST(k > 5);
    }
    BOOST_TEST(in_broadcasts >= n);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_replaced_meanwhile_is_loaded_whole) {
    cairn::memory_store memory;
    stored before(0), after(20'000);
    cairn::save(before.dict(), "c", memory);
    support::counting_store<cairn::memory_store> store(memory);
    std::atomic<int> opened{0};
    store.on_open([&](std::string_view name) {
        if (!name.ends_with(".distcp") || opened++ != 3) return;
        cairn::save(after.dict(), "c", memory);
    });
    with_planes(3, [&](member& me, auto& plane) {
        wanted to(me.rank(), 3);
        auto sd = to.dict();
        (void)cairn::load(sd, "c", how(always), me, plane, store);
        must(to.is(before) || to.is(after), "a rank has another state");
        must(to.is(after), "the state from before");
    });
    BOOST_TEST(opened > 6);
}

BOOST_AUTO_TEST_CASE(a_planner_that_fails_is_the_error_of_all_whoever_reads) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    for (std::string const refuse : {"r0", "r1", "r2", "r3", "r4", "tied_1", "d"}) {
        for (int bad = 0; bad < 3; ++bad) {
            auto const errors = try_with_planes(3, [&](member& me, auto& plane) {
                wanted to(me.rank(), 3);
                auto sd = to.dict();
                auto const o = how(always);
                odd_planner planner{cairn::default_planner(o.planner)};
                if (me.rank() == bad) planner.refuse = refuse;
                (void)cairn::load(sd, "c", o, me, plane, memory, planner);
            });
            for (auto const& e : errors) {
                BOOST_REQUIRE(e);
                BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [&](auto const& x) {
                    // One cause, and the group is as good as before.
                    return x.failures().size() == 1 && x.failures()[0].where.rank == bad &&
                           std::string(x.what()).find("no room for " + refuse) != std::string::npos;
                });
            }
        }
    }
}

/// Reads everything, and says so of nothing.
struct silent_reader : cairn::torch_reader {
    using cairn::torch_reader::torch_reader;
    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::read_result> done) {
        silent_ = target;
        silent_.commit_tensor = [](const cairn::read_item&, cairn::tensor_view) {};
        cairn::torch_reader::read_data(plan, silent_, std::move(done));
    }

private:
    cairn::read_target silent_{};
};

BOOST_AUTO_TEST_CASE(what_a_reader_has_not_committed_is_not_sent) {
    cairn::memory_store memory;
    std::vector<float> r = numbers(n_rows * n_columns, 1);
    cairn::save(cairn::state_dict{{"r0", matrix(r)}}, "c", memory);
    auto const errors = try_with_planes(3, [&](member& me, auto& plane) {
        std::vector<float> to(r.size());
        cairn::state_dict sd{{"r0", matrix(to)}};
        cairn::load(sd, "c", how(always), me, plane, silent_reader(memory));
    });
    for (auto const& e : errors) {
        BOOST_REQUIRE(e);
        BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [](const cairn::error& x) {
            return x.code() == cairn::make_error_code(errc::invalid_plan) &&
                   std::string(x.what()).find("commits") != std::string::npos;
        });
    }
}

/// Rank 1 does not come to the broadcast before rank 0 was told to cancel in it.
BOOST_AUTO_TEST_CASE(a_load_in_the_background_can_be_cancelled_in_a_broadcast) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    std::promise<void> at_broadcast, cancelled;
    using plane_t = cairn::communicator_data_plane<member>;
    struct late_plane {
        std::shared_ptr<plane_t> inner;
        std::promise<void>* here;
        std::promise<void>* go_on;
        int rank() const { return inner->rank(); }
        int size() const { return inner->size(); }
        int plane_id() const { return inner->plane_id(); }
        void cancel() noexcept { inner->cancel(); }
        bool serves(cairn::device_id d) const { return inner->serves(d); }
        void broadcast(cairn::memory_span b, int root, cairn::deadline d,
                       cairn::completion<cairn::done_t> done) {
            if (auto* const h = std::exchange(here, nullptr)) {
                h->set_value();
                go_on->get_future().wait();
            }
            inner->broadcast(b, root, d, std::move(done));
        }
        void duplicate(cairn::deadline d, cairn::completion<late_plane> done) {
            auto const to = std::make_shared<cairn::completion<late_plane>>(std::move(done));
            inner->duplicate(
                d, cairn::completion<plane_t>(
                       [to, h = here, g = go_on](std::exception_ptr e, std::optional<plane_t> p) {
                           if (e) return to->fail(std::move(e));
                           (*to)(late_plane{std::make_shared<plane_t>(std::move(*p)), h, g});
                       }));
        }
    };
    auto const errors = try_with_planes(2, [&](member& me, auto& plane) {
        wanted to(me.rank(), 2);
        auto sd = to.dict();
        auto const o = how(always);
        if (me.rank() == 1) {
            late_plane late{std::shared_ptr<plane_t>(std::shared_ptr<void>(), &plane),
                            &at_broadcast, &cancelled};
            (void)cairn::async_load(sd, "c", o, me, late, memory, boost::asio::use_future).get();
            return;
        }
        boost::asio::cancellation_signal stop;
        auto loaded = cairn::async_load(
            sd, "c", o, me, plane, memory,
            boost::asio::bind_cancellation_slot(stop.slot(), boost::asio::use_future));
        at_broadcast.get_future().wait();
        stop.emit(boost::asio::cancellation_type::terminal);
        cancelled.set_value();
        (void)loaded.get();
    });
    for (auto const& e : errors) {
        BOOST_REQUIRE(e);
        BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error,
                              [](const auto& x) { return x.state_modified(); });
    }
}

BOOST_AUTO_TEST_CASE(a_plane_on_some_ranks_only_is_refused) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    for (int without : {0, 1}) {
        auto const errors = try_with_planes(2, [&](member& me, auto& plane) {
            wanted to(me.rank(), 2);
            auto sd = to.dict();
            if (me.rank() == without)
                (void)cairn::load(sd, "c", how(always), me, memory);
            else
                (void)cairn::load(sd, "c", how(always), me, memory, plane);
        });
        for (auto const& e : errors) {
            BOOST_REQUIRE(e);
            BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [](const auto& x) {
                return x.code() == cairn::make_error_code(errc::invalid_argument) &&
                       !x.state_modified();
            });
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
