// SPDX-License-Identifier: Apache-2.0
// Children that go on with an executor on which their parent saves or loads.
#include "support/child_process.hpp"
#include "support/scratch.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(forked_contexts)

namespace asio = boost::asio;
using support::child_that;
using support::end_of;

namespace {

/// Runs `start(context, handler)` once for each step at which the process can be forked: the child
/// goes on with the context, and must not call the handler. `check()` follows the end of each.
template <class Start, class Check>
int forked_at_each_step(const Start& start, const Check& check) {
    int step = 0;
    for (bool more = true; more; ++step) {
        asio::io_context context;
        int handled = 0;
        std::exception_ptr why;
        auto const ended = [&](const std::exception_ptr& e) {
            ++handled;
            why = e;
        };
        start(context, ended);
        for (int i = 0; i < step && context.run_one() != 0; ++i) continue;
        int const before = handled;
        BOOST_TEST(end_of(child_that([&] {
                       context.notify_fork(asio::io_context::fork_child);
                       context.run_for(std::chrono::milliseconds(50));
                       return handled - before;
                   })) == 0);
        more = context.run_one() != 0;
        context.run();
        BOOST_TEST(handled == 1);
        BOOST_CHECK_NO_THROW(if (why) std::rethrow_exception(why));
        check();
    }
    return step;
}

}  // namespace

/// With files that threads write, and that the context does.
BOOST_AUTO_TEST_CASE(a_child_goes_on_with_its_parents_context_and_not_with_its_saves_or_loads) {
    support::scratch s;
    auto const to = (s.dir / "c").string();
    std::vector<float> trained(1000, 3), w;
    for (bool const jobs_here : {false, true}) {
        auto const jobs = [&](asio::io_context& context) {
            return jobs_here ? cairn::job_executor(context.get_executor()) : cairn::job_executor();
        };
        cairn::state_dict sd{{"w", trained}};
        auto const saves = [&](asio::io_context& context, auto ended) {
            auto const on = context.get_executor();
            cairn::async_save(
                sd, to, on, cairn::solo(),
                cairn::torch_writer(cairn::file_store(), {}, jobs(context)),
                asio::bind_executor(on, [=](std::exception_ptr e, cairn::pending_save p) {
                    if (e) return ended(e);
                    p.async_wait(asio::bind_executor(
                        on, [=](std::exception_ptr f, const cairn::save_report&) { ended(f); }));
                }));
        };
        BOOST_TEST(forked_at_each_step(saves, [&] {
                       w.assign(1000, 0);
                       (void)cairn::load(cairn::state_dict{{"w", w}}, to);
                       BOOST_TEST((w == trained));
                   }) > 5);
        w.assign(1000, 0);
        cairn::state_dict into{{"w", w}};
        auto const loads = [&](asio::io_context& context, auto ended) {
            auto const on = context.get_executor();
            cairn::async_load(
                into, to, on, cairn::solo(),
                cairn::torch_reader(cairn::file_store(), {.announce = true}, jobs(context)),
                asio::bind_executor(
                    on, [=](std::exception_ptr e, const cairn::load_report&) { ended(e); }));
        };
        BOOST_TEST(forked_at_each_step(loads, [&] {
                       BOOST_TEST((w == trained));
                       w.assign(1000, 0);
                   }) > 3);
    }
}

BOOST_AUTO_TEST_SUITE_END()
