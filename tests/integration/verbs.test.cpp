// SPDX-License-Identifier: Apache-2.0
// The verbs with move-only parts of a user in every combination, any completion token, bad input.
#include "support/data_files.hpp"
#include "support/error_codes.hpp"
#include "support/meddling_group.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(compose)

namespace fs = std::filesystem;
namespace asio = boost::asio;
using cairn::errc;

namespace {

/// Move-only, no base class: forwards to the part that it holds.
struct my_ranks {
    cairn::solo inner;
    my_ranks() = default;
    my_ranks(my_ranks&&) = default;
    my_ranks& operator=(my_ranks&&) = default;
    int rank() const { return inner.rank(); }
    int size() const { return inner.size(); }
    template <class... A>
    void gather(A&&... a) {
        inner.gather(std::forward<A>(a)...);
    }
    template <class... A>
    void scatter(A&&... a) {
        inner.scatter(std::forward<A>(a)...);
    }
    template <class... A>
    void broadcast(A&&... a) {
        inner.broadcast(std::forward<A>(a)...);
    }
    template <class... A>
    void all_gather(A&&... a) {
        inner.all_gather(std::forward<A>(a)...);
    }
    template <class... A>
    void share(A&&... a) {
        inner.share(std::forward<A>(a)...);
    }
    void cancel() noexcept { inner.cancel(); }
};
using my_planner = cairn::default_planner;  // move-only: it holds a unique_ptr
using my_writer = cairn::torch_writer;
using my_reader = cairn::torch_reader;
static_assert(!std::copy_constructible<my_planner> && !std::copy_constructible<my_writer>);
static_assert(!std::copy_constructible<my_ranks> && cairn::Communicator<my_ranks>);

using support::is;

}  // namespace

BOOST_AUTO_TEST_CASE(verbs_take_move_only_parts_in_any_order) {
    cairn::memory_store store;
    std::vector<float> w{1, 2};
    cairn::state_dict sd{{"w", w}};
    auto const check = [&](const char* id) {
        w = {0, 0};
        cairn::load(sd, id, my_reader(store), my_ranks(), my_planner());
        BOOST_TEST(w[1] == 2.0f);
        w = {0, 0};
        cairn::load(sd, id, store, my_planner());
        BOOST_TEST(w[1] == 2.0f);
        w = {0, 0};
        cairn::load(sd, id, {}, my_planner(), my_reader(store));
        BOOST_TEST(w[1] == 2.0f);
        w = {1, 2};
    };
    cairn::save(sd, "a", my_ranks(), my_planner(), my_writer(store));
    check("a");
    cairn::save(sd, "b", my_writer(store), my_ranks(), my_planner());
    check("b");
    cairn::save(sd, "c", my_planner(), store);
    check("c");
    cairn::save(sd, "d", my_writer(store));
    check("d");
    cairn::save(sd, "e", {.coordinator = 0}, store, my_ranks());
    check("e");
    my_ranks ranks;
    my_planner planner;
    my_writer writer(store);
    cairn::save(sd, "f", planner, writer, ranks);
    cairn::save(sd, "f", planner, writer,
                ranks);  // lvalues are used where they are, again and again
    check("f");
}

BOOST_AUTO_TEST_CASE(verbs_take_any_completion_token) {
    cairn::memory_store store;
    std::vector<float> w{1, 2};
    cairn::state_dict sd{{"w", w}};
    asio::io_context ctx;
    bool called = false;
    cairn::async_save(sd, "a", store,
                      asio::bind_executor(ctx, [&](std::exception_ptr e, cairn::pending_save p) {
                          called = !e && p.wait().save_id.size() == 32;
                      }));
    BOOST_TEST(!called);
    ctx.run();
    BOOST_TEST(called);
    w = {0, 0};
    cairn::async_load(sd, "a", my_reader(store), asio::use_future).get();
    BOOST_TEST(w[1] == 2.0f);
    BOOST_CHECK_THROW(cairn::async_load(sd, "none", store, asio::use_future).get(), cairn::error);
    bool awaited = false;
    asio::io_context other;
    asio::co_spawn(
        other,
        [&]() -> asio::awaitable<void> {
            auto saved =
                co_await cairn::async_save(sd, "b", store, my_planner(), asio::use_awaitable);
            (void)co_await saved.async_wait(asio::use_awaitable);
            w = {0, 0};
            (void)co_await cairn::async_load(sd, "b", store, asio::use_awaitable);
            awaited = w[1] == 2.0f;
        },
        asio::detached);
    other.run();
    BOOST_TEST(awaited);
}

/// Added to a point in time, it would lie in the past.
BOOST_AUTO_TEST_CASE(no_timeout_is_no_timeout) {
    using std::chrono::milliseconds;
    for (auto const none :
         {cairn::no_timeout, milliseconds::max() - milliseconds(1), milliseconds::max() / 2}) {
        cairn::memory_store store;
        BOOST_CHECK_NO_THROW(cairn::run_ranks(2, [&](auto& me) {
            std::vector<float> w{1, 2};
            cairn::state_dict sd{{"w", w}};
            cairn::save_options saving;
            cairn::load_options loading;
            saving.exchange_timeout = loading.exchange_timeout = none;
            cairn::save(sd, "a", saving, store, me);
            cairn::async_save(sd, "b", saving, store, me, asio::use_future).get().wait();
            for (auto const* id : {"a", "b"}) {
                w = {0, 0};
                cairn::load(sd, id, loading, store, me);
                if (w[1] != 2.0f) throw std::runtime_error("not loaded");
                w = {0, 0};
                cairn::async_load(sd, id, loading, store, me, asio::use_future).get();
                if (w[1] != 2.0f) throw std::runtime_error("not loaded");
            }
            (void)cairn::full_tensor(w, me, {.exchange_timeout = none});
        }));
    }
}

BOOST_AUTO_TEST_CASE(an_error_on_one_rank_reaches_all) {
    cairn::memory_store store;
    std::vector<std::string> told(3);
    auto const run = [&] {
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            std::vector<float> w(2);
            cairn::state_dict sd{{"w", w}};
            if (me.rank() == 1) sd["w.x"] = 1;
            // Two names that join alike: this rank cannot even flatten its state.
            if (me.rank() == 1) sd["w"] = cairn::state_dict{{"x", 2}};
            try {
                cairn::save(sd, "a", me, store);
            } catch (const cairn::error& e) {
                told[static_cast<std::size_t>(me.rank())] = e.what();
                throw;
            }
        });
    };
    BOOST_CHECK_THROW(run(), cairn::error);
    for (auto const& t : told) BOOST_TEST(t.find("rank 1") != std::string::npos, t);
    BOOST_TEST(store.at("a").list().empty());
}

BOOST_AUTO_TEST_CASE(two_ranks_that_disagree_are_both_named) {
    cairn::memory_store store;
    auto const run = [&](auto make) {
        std::string what;
        try {
            cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
                auto sd = make(me.rank());
                cairn::save(sd, "a", me, store);
            });
        } catch (const cairn::error& e) {
            what = e.what();
        }
        BOOST_TEST(what.find("rank 0") != std::string::npos, what);
        BOOST_TEST(what.find("rank 1") != std::string::npos, what);
    };
    run([](int rank) { return cairn::state_dict{{"seed", 100 + rank}}; });
    run([](int rank) {
        return cairn::state_dict{{"w", std::vector<float>(static_cast<std::size_t>(2 + rank))}};
    });
}

/// Each would write to a place of its own, and none of them would have all; or read its part from
/// another checkpoint.
BOOST_AUTO_TEST_CASE(ranks_with_different_ids_are_told) {
    for (bool const loads : {false, true}) {
        for (int const other : {0, 2}) {
            cairn::memory_store store;
            if (loads)
                for (auto const* id : {"a", "b"})
                    cairn::save(cairn::state_dict{{"w", std::vector<float>(2)}}, id, store);
            std::vector<std::string> told(3);
            auto const run = [&] {
                cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
                    std::vector<float> w(2);
                    cairn::state_dict sd{{"w", w}};
                    auto const* const id = me.rank() == other ? "b" : "a";
                    try {
                        if (loads)
                            cairn::load(sd, id, me, store);
                        else
                            cairn::save(sd, id, me, store);
                    } catch (const cairn::error& e) {
                        told[static_cast<std::size_t>(me.rank())] = e.what();
                        throw;
                    }
                });
            };
            BOOST_CHECK_EXCEPTION(run(), cairn::error, is(errc::invalid_argument));
            auto const* const who = other == 0 ? "ranks 1-2" : "rank 2";  // not the coordinator
            for (auto const& t : told)
                for (auto const* word : {who, "'a'", "'b'", "the same id"})
                    BOOST_TEST(t.find(word) != std::string::npos, t);
            for (auto const* id : {"a", "b"}) BOOST_TEST(store.at(id).list().empty() == !loads);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_calls_another_verb_than_the_coordinator_says_so) {
    for (int const saves : {0, 1}) {
        cairn::memory_store store;
        cairn::save(cairn::state_dict{{"w", std::vector<float>(2)}}, "a", store);
        auto const all = support::on_ranks_that_stay(2, [&](auto& me, int rank) {
            std::vector<float> w(2);
            cairn::state_dict sd{{"w", w}};
            if (rank == saves)
                cairn::save(sd, "a", me, store);
            else
                cairn::load(sd, "a", me, store);
        });
        BOOST_TEST_CONTEXT(support::words(all)) {
            BOOST_TEST(all[1].is(errc::invalid_argument));
            BOOST_REQUIRE(all[1].e);
            std::string const what = all[1].e->what();
            auto const* const theirs = saves == 0 ? "a save, which the coordinator has called"
                                                  : "a load, which the coordinator has called";
            BOOST_TEST(what.find(theirs) != std::string::npos);
            BOOST_TEST(!all[0].ok());
            BOOST_TEST(!all[0].is(errc::timed_out));
        }
    }
}

BOOST_AUTO_TEST_CASE(bad_places_are_clear_errors) {
    support::scratch s;
    std::vector<float> w(2);
    cairn::state_dict sd{{"w", w}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, (s.dir / "none").string()), cairn::error,
                          is(errc::not_found));
    fs::create_directory(s.dir / "empty");
    BOOST_CHECK_EXCEPTION(cairn::load(sd, (s.dir / "empty").string()), cairn::error,
                          is(errc::not_found));
    std::ofstream(s.dir / "file") << "x";
    BOOST_CHECK_THROW(cairn::save(sd, (s.dir / "file" / "x").string()), cairn::error);
    auto const id = (s.dir / "ok").string();
    cairn::save(sd, id);
    auto const data = support::data_file_in(s.dir / "ok", "__0_0");
    fs::resize_file(data, 100);
    BOOST_CHECK_EXCEPTION(cairn::load(sd, id), cairn::error, [](const cairn::error& e) {
        std::string const what = e.what();
        return what.find("__0_0.") != what.npos && what.find("100 bytes") != what.npos &&
               what.find("rank 0") != what.npos;
    });
    fs::remove(data);
    BOOST_CHECK_THROW(cairn::load(sd, id), cairn::error);
    fs::resize_file(s.dir / "ok" / ".metadata", 20);
    BOOST_CHECK_THROW(cairn::load(sd, id), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
