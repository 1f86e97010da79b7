// SPDX-License-Identifier: Apache-2.0
// The environment is read in the call that starts an operation: the program may change it later.
#include "save/background_ranks.hpp"
#include "support/set_variable.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/environment.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/detail/job_attempt.hpp>

#include "support/scratch.hpp"

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<std::thread::id> reads_it{};
std::atomic<int> elsewhere{0};

}  // namespace

/// Stands for the C library's in this program.
extern "C" char* getenv(const char* name) noexcept {
    auto const here = std::this_thread::get_id();
    if (reads_it.load() != std::thread::id() && reads_it.load() != here) ++elsewhere;
    auto const n = std::strlen(name);
    for (auto** v = ::environ; v != nullptr && *v != nullptr; ++v)
        if (std::strncmp(*v, name, n) == 0 && (*v)[n] == '=') return *v + n + 1;
    return nullptr;
}

BOOST_AUTO_TEST_SUITE(environment)

using cairn::detail::noted_environment;

BOOST_AUTO_TEST_CASE(the_environment_is_as_the_latest_call_has_found_it) {
    support::set_variable const at_first("CAIRN_TEST_VARIABLE", "a");
    support::set_variable const empty("CAIRN_TEST_EMPTY", "");
    auto const read = [] { return noted_environment::read("CAIRN_TEST_VARIABLE").value_or("-"); };
    BOOST_TEST(read() == "a");
    {
        noted_environment const one;
        support::set_variable const changed("CAIRN_TEST_VARIABLE", "b");
        BOOST_TEST(read() == "a");
        BOOST_TEST(!noted_environment::read("CAIRN_TEST_EMPTY"));
        BOOST_TEST(!noted_environment::read("CAIRN_TEST_VARIABL"));
        std::optional<noted_environment> two(std::in_place);
        BOOST_TEST(read() == "b");
        support::set_variable const again("CAIRN_TEST_VARIABLE", "c");
        two.reset();
        BOOST_TEST(read() == "b");
    }
    BOOST_TEST(read() == "a");
}

BOOST_AUTO_TEST_CASE(no_thread_of_cairns_reads_the_environment) {
    support::scratch s;
    std::vector<float> w(1000);
    cairn::state_dict sd{{"w", w}};
    reads_it = std::this_thread::get_id();
    for (auto const* id : {"a", "a"})  // replaced: what was left behind is looked at
        (void)cairn::async_save(sd, id, cairn::file_store(s.dir), cairn::solo(),
                                boost::asio::use_future)
            .get()
            .wait();
    (void)cairn::async_load(sd, "a", cairn::file_store(s.dir), cairn::solo(),
                            boost::asio::use_future)
        .get();
    (void)cairn::save(sd, "b", cairn::file_store(s.dir), cairn::solo());
    reads_it = std::thread::id();
    BOOST_TEST(elsewhere == 0);
}

BOOST_AUTO_TEST_CASE(the_environment_tells_a_save_of_which_attempt_of_a_job_it_is) {
    auto const g = std::make_shared<background_ranks::gate>();
    support::scratch s;
    std::vector<float> w(1000);
    cairn::state_dict sd{{"w", w}};
    std::optional<support::set_variable> job(std::in_place, "CAIRN_JOB_ID", "17");
    auto pending =
        cairn::async_save(sd, "a", background_ranks::gated_store(cairn::file_store(s.dir), g),
                          cairn::solo(), boost::asio::use_future)
            .get();
    job.reset();
    BOOST_REQUIRE(g->wait_for(1));
    BOOST_TEST(cairn::detail::job_attempt::of_this_process().job == "job 17");
    g->let_go();
    (void)pending.wait();
    BOOST_TEST(cairn::detail::job_attempt::of_this_process().job == "");
}

BOOST_AUTO_TEST_SUITE_END()
