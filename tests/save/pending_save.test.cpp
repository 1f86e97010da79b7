// SPDX-License-Identifier: Apache-2.0
// Handles of saves in the background: cancelled, dropped, waited for.
#include "background_ranks.hpp"

#include <cairn/async_save.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// A token that waits for the end in the call, as that of a stackful coroutine does.
struct waiting {};

}  // namespace

template <>
struct boost::asio::async_result<waiting, void(std::exception_ptr, cairn::pending_save)> {
    template <class Init, class... Given>
    static cairn::pending_save initiate(Init&& init, waiting, Given&&... given) {
        std::promise<cairn::pending_save> p;
        std::forward<Init>(init)(
            [&](std::exception_ptr e, cairn::pending_save s) {
                e ? p.set_exception(std::move(e)) : p.set_value(std::move(s));
            },
            std::forward<Given>(given)...);
        return p.get_future().get();
    }
};

BOOST_AUTO_TEST_SUITE(pending_save)

using namespace background_ranks;

/// All ranks are told the same, the old checkpoint stays, no file is left, and the group remains
/// usable.
BOOST_AUTO_TEST_CASE(cancelling_while_ranks_write_is_cancelled_on_all) {
    for (std::size_t by : {0u, 1u, 2u}) {
        cairn::memory_store base;
        ranks_of_three old(1), now(2);
        for (auto& p : old.save(base)) BOOST_TEST(outcome_of(p) == "none");
        auto const g = std::make_shared<gate>();
        auto saves = now.save(gated_store(base, g));
        BOOST_REQUIRE(g->wait_for(3));
        saves[by].cancel();
        g->let_go();
        for (auto& p : saves) BOOST_TEST(outcome_of(p) == cancelled);
        BOOST_TEST(base.at("c").list().size() == 4u);  // the old checkpoint, and no file more
        BOOST_TEST(first_of(base) == 1.0f);
        for (auto& p : now.save(base)) BOOST_TEST(outcome_of(p) == "none");
        BOOST_TEST(first_of(base) == 2.0f);
        BOOST_TEST(base.at("c").list().size() == 4u);
    }
}

/// What is cancelled before it is staged is told to the ranks that come late.
BOOST_AUTO_TEST_CASE(cancelling_before_all_ranks_have_come_is_told_to_the_late_ones) {
    cairn::memory_store base;
    ranks_of_three now(2);
    asio::io_context io;
    asio::cancellation_signal signal;
    std::exception_ptr told;
    cairn::async_save(now.dicts[0], "c", now.members[0], base,
                      asio::bind_cancellation_slot(
                          signal.slot(), asio::bind_executor(io, [&](std::exception_ptr e,
                                                                     const cairn::pending_save& p) {
                              told = std::move(e);
                              BOOST_TEST(!p);
                          })));
    asio::post(io, [&] { signal.emit(asio::cancellation_type::terminal); });
    io.run();  // at once, although the others have not come
    BOOST_TEST(code_of(told) == cancelled);
    now.dicts[0] = cairn::state_dict();
    now.rows[0].clear();  // nothing of the state is used any more
    std::vector<std::future<cairn::pending_save>> late;
    for (std::size_t r : {1u, 2u})
        late.push_back(
            cairn::async_save(now.dicts[r], "c", now.members[r], base, asio::use_future));
    for (auto& l : late) {
        try {
            (void)l.get();
            BOOST_ERROR("saved");
        } catch (...) {
            BOOST_TEST(code_of(std::current_exception()) == cancelled);
        }
    }
    BOOST_TEST(base.at("c").list().empty());
    ranks_of_three again(3);
    again.members = std::move(now.members);  // the same group
    for (auto& p : again.save(base)) BOOST_TEST(outcome_of(p) == "none");
}

/// Emitting and completing on one strand: nothing else may touch the slot.
BOOST_AUTO_TEST_CASE(a_slot_is_touched_only_where_the_handler_runs) {
    std::vector<float> w(256, 1.0f);
    cairn::state_dict sd{{"w", w}};
    cairn::memory_store store;
    asio::io_context io(1);
    for (int i = 0; i < 50; ++i) {
        asio::cancellation_signal signal;
        bool done = false;
        cairn::async_save(sd, "c", store,
                          asio::bind_cancellation_slot(
                              signal.slot(), asio::bind_executor(io, [&](std::exception_ptr,
                                                                         cairn::pending_save p) {
                                  done = true;
                                  if (p) p.cancel();
                              })));
        while (!done) {
            asio::post(io, [&] {
                if (!done) signal.emit(asio::cancellation_type::total);
            });
            io.restart();
            io.run_one();
        }
        io.restart();
        io.poll();
    }
}

/// Whether its handler has run already or is still to run.
BOOST_AUTO_TEST_CASE(emitting_does_not_cancel_a_staged_save) {
    cairn::memory_store base;
    std::vector<float> w(4, 1.0f);
    cairn::state_dict sd{{"w", w}};
    for (bool const runs_late : {false, true}) {
        auto const g = std::make_shared<gate>();
        gated_store store(base, g);
        asio::cancellation_signal signal;
        asio::io_context io;
        cairn::pending_save pending;
        auto const handler = [&](std::exception_ptr e, cairn::pending_save p) {
            BOOST_TEST(code_of(e) == "none");
            pending = std::move(p);
        };
        if (runs_late)
            cairn::async_save(
                sd, "c", store,
                asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io, handler)));
        else
            pending =
                cairn::async_save(sd, "c", store,
                                  asio::bind_cancellation_slot(signal.slot(), asio::use_future))
                    .get();
        BOOST_REQUIRE(g->wait_for(1));  // it is staged
        BOOST_TEST(signal.slot().has_handler());
        signal.emit(asio::cancellation_type::terminal);
        g->let_go();
        io.run();
        BOOST_TEST(outcome_of(pending) == "none");
    }
}

BOOST_AUTO_TEST_CASE(a_wait_can_be_cancelled_and_repeated) {
    cairn::memory_store base;
    auto const g = std::make_shared<gate>();
    std::vector<float> w(4, 1.0f);
    cairn::state_dict sd{{"w", w}};
    auto pending = cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    asio::io_context io;
    asio::cancellation_signal signal;
    int waits = 0;
    auto const wait = [&](auto f) {
        pending.async_wait(asio::bind_cancellation_slot(
            signal.slot(),
            asio::bind_executor(io, [&, f](std::exception_ptr e, const cairn::save_report& r) {
                ++waits;
                f(e, r);
            })));
    };
    wait([](const std::exception_ptr& e, const cairn::save_report&) {
        try {
            std::rethrow_exception(e);
        } catch (const boost::system::system_error& x) {
            BOOST_TEST((x.code() == asio::error::operation_aborted));
        }
    });
    // One wait at a time.
    wait([](const std::exception_ptr& e, const cairn::save_report&) {
        BOOST_TEST(code_of(e) == make_error_code(cairn::errc::invalid_argument).message());
    });
    signal.emit(asio::cancellation_type::total);
    io.run();
    BOOST_TEST(waits == 2);
    BOOST_TEST(!pending.ready());
    wait([](const std::exception_ptr& e, const cairn::save_report& r) {
        BOOST_TEST(!e);
        BOOST_TEST(r.bytes_written > 0u);
    });
    g->let_go();
    io.restart();
    io.run();
    BOOST_TEST(waits == 3);
}

/// Without its handle a save goes on; its error goes where it is looked for.
BOOST_AUTO_TEST_CASE(a_dropped_handle_loses_neither_the_save_nor_its_error) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    {
        auto const g = std::make_shared<gate>();
        (void)cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
        g->let_go();
        auto const by = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (base.at("c").tag(".metadata").text.empty() && std::chrono::steady_clock::now() < by)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        BOOST_TEST(first_of(base) == 5.0f);
    }
    std::promise<std::string> unclaimed;
    cairn::save_options o;
    o.on_unclaimed_error = [&](const std::exception_ptr& e) { unclaimed.set_value(code_of(e)); };
    auto const g = std::make_shared<gate>();
    auto pending = cairn::async_save(sd, "d", o, gated_store(base, g), asio::use_future).get();
    pending.cancel();
    pending = {};
    g->let_go();
    auto told = unclaimed.get_future();
    BOOST_REQUIRE((told.wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    BOOST_TEST(told.get() == cancelled);
}

/// A part that is borrowed is not used once the handle is gone.
BOOST_AUTO_TEST_CASE(a_handle_that_borrows_waits) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    cairn::torch_writer writer(gated_store(base, g));
    auto pending = cairn::async_save(sd, "c", writer, asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        g->let_go();
    });
    pending = {};
    BOOST_TEST(first_of(base) == 5.0f);
    later.join();
}

/// What the function uses may end right after the handle.
BOOST_AUTO_TEST_CASE(a_handle_that_borrows_reports_the_error_itself) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    cairn::torch_writer writer(gated_store(base, g));
    std::thread::id told;
    cairn::save_options o;
    o.on_unclaimed_error = [&](const std::exception_ptr& e) {
        BOOST_TEST(code_of(e) == cancelled);
        told = std::this_thread::get_id();
    };
    auto pending = cairn::async_save(sd, "c", o, writer, asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    pending.cancel();
    g->let_go();
    pending = {};
    BOOST_TEST((told == std::this_thread::get_id()));
}

/// An executor whose context ends early: an error, no crash, and the other ranks do not wait.
BOOST_AUTO_TEST_CASE(a_context_that_ends_early_is_an_error) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    std::promise<std::string> told;
    std::string staged;
    {
        asio::io_context io(1);
        cairn::async_save(
            sd, "c", base, io.get_executor(),
            [&](std::exception_ptr e, const cairn::pending_save&) { told.set_value(code_of(e)); });
        io.run_one();
    }
    auto f = told.get_future();
    BOOST_REQUIRE((f.wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    BOOST_TEST(f.get() == make_error_code(cairn::errc::abandoned).message());
    BOOST_TEST(base.at("c").tag(".metadata").text.empty());
}

/// Before the save has begun, too: its lane was still being made.
BOOST_AUTO_TEST_CASE(a_context_that_ends_before_all_ranks_have_come_is_an_error) {
    cairn::memory_store base;
    ranks_of_three now(2);
    std::future<cairn::pending_save> first;
    {
        asio::io_context io(1);
        first = cairn::async_save(now.dicts[0], "c", now.members[0], base, io.get_executor(),
                                  asio::use_future);
        for (std::size_t r : {1u, 2u})
            cairn::async_save(now.dicts[r], "c", now.members[r], base,
                              [](std::exception_ptr, const cairn::pending_save&) {});
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its lane is made
    }
    BOOST_CHECK_EXCEPTION(first.get(), cairn::error, [](const auto& e) {
        return e.code() == make_error_code(cairn::errc::abandoned);
    });
}

/// What is passed as an lvalue is copied inside the call; an executor is not borrowed either.
BOOST_AUTO_TEST_CASE(stores_and_executors_may_go_after_the_call) {
    cairn::memory_store base;
    ranks_of_three now(2);
    asio::io_context io(1);
    std::vector<std::exception_ptr> told;
    int ended = 0;
    {
        auto const on = io.get_executor();
        for (std::size_t r = 0; r < 3; ++r) {
            auto store = std::make_unique<cairn::memory_store>(base);
            cairn::async_save(
                now.dicts[r], "c", now.members[r], *store, on,
                asio::bind_executor(io, [&](std::exception_ptr e, cairn::pending_save) {
                    told.push_back(std::move(e));
                    ++ended;  // and the handle goes, where the save runs
                }));
        }
    }
    io.run();
    BOOST_TEST(ended == 3);
    for (auto const& e : told) BOOST_TEST(code_of(e) == "none");
    BOOST_TEST(first_of(base) == 2.0f);
}

/// The result is taken once, and cancelling works while another thread waits.
BOOST_AUTO_TEST_CASE(a_result_is_taken_once) {
    cairn::memory_store base;
    std::vector<float> w(4, 1.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    auto pending = cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    auto waiting = std::async(std::launch::async, [&] { return outcome_of(pending); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pending.cancel();
    g->let_go();
    BOOST_TEST(waiting.get() == cancelled);
    BOOST_TEST(!pending);
    BOOST_CHECK_THROW(pending.wait(), cairn::error);
    auto next = cairn::async_save(sd, "c", base, asio::use_future).get();
    auto report = next.async_wait(asio::use_future);
    BOOST_TEST(report.get().bytes_written > 0u);
    BOOST_TEST(!next);
    BOOST_CHECK_THROW(next.wait(), cairn::error);
}

/// The others know of the failure already: the group is not cancelled for it.
BOOST_AUTO_TEST_CASE(a_failure_that_a_token_throws_leaves_the_group_as_it_was) {
    cairn::memory_store base;
    std::vector<float> v(8);
    cairn::state_dict sd{{"w", v}};
    cairn::save_options once;
    once.storage.overwrite = false;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        for (int k = 0; k < 2; ++k) {
            try {
                auto p = cairn::async_save(sd, "c", once, me, base, waiting());
                BOOST_TEST(k == 0);
                (void)p.wait();
            } catch (const cairn::error& e) {
                BOOST_TEST(k == 1);
                BOOST_TEST((e.code() == make_error_code(cairn::errc::already_exists)));
            }
        }
        BOOST_CHECK_NO_THROW((void)cairn::save(sd, "c", me, base));
    });
}

BOOST_AUTO_TEST_SUITE_END()
