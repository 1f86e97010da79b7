// SPDX-License-Identifier: Apache-2.0
// A store's credentials are found once, renewed before they expire, by one thread of many.
#include "support/error_codes.hpp"

#include <cairn/error.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/s3/credentials.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_credential_source)

namespace {

using namespace cairn::detail::s3;
using namespace std::chrono_literals;
using cairn::errc;
using support::is;

/// An agent of a container whose answers are numbered, and a clock that a test sets.
struct agent {
    std::atomic<int> answers = 0;
    std::atomic<int> hours = 0;
    std::atomic<bool> fails = false;
    std::atomic<bool> same = false;  ///< The first answer again.
    std::atomic<std::chrono::minutes> late{0min};
    std::function<void()> while_asked = [] {};

    std::chrono::system_clock::time_point now() const {
        return std::chrono::sys_days(std::chrono::year(2026) / 11 / 28) +
               std::chrono::hours(hours.load()) + late.load();
    }
    /// Each answer holds until the hour after the one in which it is given.
    response answer() {
        while_asked();
        if (fails) throw cairn::error(errc::invalid_argument, {.found = "the agent fails"});
        int const n = ++answers;
        response r;
        r.status = 200;
        r.body = R"({"AccessKeyId": "KEY)" + std::to_string(same ? 1 : n) +
                 R"(", "SecretAccessKey": "S", "Token": "T", "Expiration": "2026-11-28T)" +
                 std::to_string(1 + hours) + ":00:00Z\"}";
        return r;
    }
    std::unique_ptr<credential_source> source() {
        aws_environment e;
        e.container_full_uri = "http://localhost/";
        return std::make_unique<credential_source>(
            std::nullopt, e, [this](const request&, std::chrono::milliseconds) { return answer(); },
            [this] { return now(); });
    }
    agent() { hours = 10; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(given_ones_are_used_as_they_are) {
    sender const nobody = [](const request&, std::chrono::milliseconds) -> response {
        throw cairn::error(errc::io, {});
    };
    cairn::s3_credentials const mine{"A", "S", "T", std::chrono::system_clock::time_point()};
    credential_source given(mine, {}, nobody);
    BOOST_CHECK(*given.get() == mine);
    BOOST_CHECK(*given.renew(mine) == mine);
    credential_source anonymous(cairn::s3_credentials::anonymous(), {}, nobody);
    BOOST_TEST(anonymous.get()->is_anonymous());
    BOOST_TEST(!given.get()->is_anonymous());
    aws_environment e;
    e.access_key = "A";
    e.secret_key = "S";
    credential_source found(std::nullopt, e, nobody);
    BOOST_TEST(found.get()->access_key == "A");
    BOOST_TEST(found.renew(*found.get())->access_key == "A");
}

BOOST_AUTO_TEST_CASE(they_are_kept_until_shortly_before_they_expire) {
    agent a;
    auto const s = a.source();
    BOOST_TEST(a.answers == 0);
    for (int i = 0; i < 3; ++i) BOOST_TEST(s->get()->access_key == "KEY1");
    a.late = 54min;
    BOOST_TEST(s->get()->access_key == "KEY1");
    a.late = 55min;
    BOOST_TEST(s->get()->access_key == "KEY2");
    // As short-lived as the one before: not asked again at once.
    BOOST_TEST(s->get()->access_key == "KEY2");
    a.late = 56min;
    BOOST_TEST(s->get()->access_key == "KEY3");
}

BOOST_AUTO_TEST_CASE(a_failure_matters_only_once_they_have_expired) {
    agent a;
    auto const s = a.source();
    a.fails = true;
    int asked = 0;
    a.while_asked = [&] { ++asked; };
    for (int i = 0; i < 3; ++i)
        BOOST_CHECK_EXCEPTION(s->get(), cairn::error, is(errc::invalid_argument));
    BOOST_TEST(asked == 1, "each request waits for a service that has just failed");
    a.fails = false;
    a.late = 1min;
    BOOST_TEST(s->get()->access_key == "KEY1");
    a.late = 57min;
    a.fails = true;
    asked = 0;
    for (int i = 0; i < 3; ++i) BOOST_TEST(s->get()->access_key == "KEY1");
    BOOST_TEST(asked == 1);
    a.late = 60min;
    BOOST_CHECK_EXCEPTION(s->get(), cairn::error, is(errc::invalid_argument));
    a.fails = false;
    a.late = 61min;
    BOOST_TEST(s->get()->access_key == "KEY2");
}

BOOST_AUTO_TEST_CASE(refused_ones_are_replaced_once) {
    agent a;
    auto const s = a.source();
    auto const first = s->get();
    auto const second = s->renew(*first);
    BOOST_TEST(second->access_key == "KEY2");
    BOOST_TEST(s->renew(*first)->access_key ==
               "KEY2");  // another thread's request was refused, too
    BOOST_TEST(s->get()->access_key == "KEY2");
    BOOST_TEST(a.answers == 2);
    a.fails = true;
    BOOST_CHECK_EXCEPTION(s->renew(*second), cairn::error, is(errc::invalid_argument));
    a.fails = false;
    a.same = true;
    auto const third = s->renew(*second);
    BOOST_TEST(third->access_key == "KEY1");
    BOOST_CHECK(*s->renew(*third) == *third);
    for (auto const* code : {"ExpiredToken", "InvalidToken"}) BOOST_TEST(is_about_expiry(code));
    BOOST_TEST(!is_about_expiry("AccessDenied"));
}

BOOST_AUTO_TEST_CASE(one_thread_asks_and_others_go_on) {
    agent a;
    auto const s = a.source();
    (void)s->get();
    a.late = 56min;
    std::promise<void> asked, goes_on;
    auto const may_answer = goes_on.get_future().share();
    a.while_asked = [&] {
        asked.set_value();
        may_answer.wait();
    };
    auto refreshing = std::async(std::launch::async, [&] { return s->get()->access_key; });
    asked.get_future().wait();
    BOOST_TEST(s->get()->access_key == "KEY1");
    goes_on.set_value();
    BOOST_TEST(refreshing.get() == "KEY2");
    BOOST_TEST(s->get()->access_key == "KEY2");
}

BOOST_AUTO_TEST_CASE(threads_without_any_wait_for_the_one_that_asks) {
    agent a;
    auto const s = a.source();
    a.while_asked = [] { std::this_thread::sleep_for(100ms); };  // others come meanwhile
    std::vector<std::future<std::string>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::async(std::launch::async, [&] { return s->get()->access_key; }));
    for (auto& one : all) BOOST_TEST(one.get() == "KEY1");
    BOOST_TEST(a.answers == 1);
    // And share its failure, if they came while it asked.
    a.hours = 12;
    a.fails = true;
    for (int i = 0; i < 8; ++i)
        all[static_cast<std::size_t>(i)] =
            std::async(std::launch::async, [&] { return s->get()->access_key; });
    for (auto& one : all)
        BOOST_CHECK_EXCEPTION(one.get(), cairn::error, is(errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_forked_child_does_not_wait_for_a_thread_of_its_parent) {
    agent a;
    auto const s = a.source();
    std::promise<void> asked, goes_on;
    auto const may_answer = goes_on.get_future().share();
    std::atomic<bool> first = true;
    a.while_asked = [&] {
        if (!first.exchange(false)) return;
        asked.set_value();
        may_answer.wait();
    };
    auto refreshing = std::async(std::launch::async, [&] { return s->get()->access_key; });
    asked.get_future().wait();
    auto const child = ::fork();
    if (child == 0) {
        ::alarm(20);
        ::_exit(s->get()->access_key == "KEY1" ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    goes_on.set_value();
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
    BOOST_TEST(refreshing.get() == "KEY1");
}

/// It looks for all that wait.
BOOST_AUTO_TEST_CASE(a_verb_that_is_cancelled_finds_them_all_the_same) {
    agent a;
    auto const s = a.source();
    std::stop_source cancelled;
    cancelled.request_stop();
    cairn::detail::heeded_stop const mine(cancelled.get_token());
    bool heeded = true;
    a.while_asked = [&] { heeded = cairn::detail::heeded_stop::is_requested(); };
    BOOST_TEST(s->get()->access_key == "KEY1");
    BOOST_TEST(!heeded);
}

BOOST_AUTO_TEST_SUITE_END()
