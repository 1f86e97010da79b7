// SPDX-License-Identifier: Apache-2.0
// A writer's threads yield to the program's: priorities, CPUs, and a limit of the rate.
#include "support/forwarding_store.hpp"

#include <cairn/async_save.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/detail/rate_limit.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(politeness)

/// Calls a function in each write.
class watched_store : public support::forwarding_store<cairn::memory_store> {
public:
    using watch = std::function<void()>;
    struct handle {
        decltype(std::declval<cairn::memory_store&>().create("", 0)) to;
        watch seen;
        void write(std::uint64_t at, cairn::byte_span b) {
            seen();
            to.write(at, b);
        }
        void finish(bool durable) { to.finish(durable); }
    };

    explicit watched_store(watch w, cairn::memory_store s = {})
        : forwarding_store(std::move(s)), watch_(std::move(w)) {}
    watched_store at(const std::string& id) const { return watched_store(watch_, store_.at(id)); }
    handle create(std::string_view n, std::uint64_t size) {
        return {store_.create(n, size), watch_};
    }

private:
    watch watch_;
};

struct thread_attributes {
    int nice = 0;
    long io = 0;
    int cpus = 0;
    bool first_cpu = false;

    static thread_attributes here() {
        cpu_set_t set;
        CPU_ZERO(&set);
        BOOST_REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
        return {::getpriority(PRIO_PROCESS, 0), ::syscall(SYS_ioprio_get, 1, 0), CPU_COUNT(&set),
                CPU_ISSET(static_cast<std::size_t>(first_allowed()), &set) != 0};
    }
    static int first_allowed() {
        cpu_set_t set;
        CPU_ZERO(&set);
        (void)::sched_getaffinity(::getpid(), sizeof set, &set);
        int cpu = 0;
        while (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) ++cpu;
        return cpu;
    }
    bool operator==(const thread_attributes&) const = default;
};

struct one_tensor {
    std::vector<float> data = std::vector<float>(1 << 16, 1.0f);
    cairn::state_dict dict{{"t", data}};
};

BOOST_AUTO_TEST_CASE(the_writers_threads_and_no_others_are_polite) {
    auto const before = thread_attributes::here();
    thread_attributes seen;
    one_tensor state;
    cairn::save_options o;
    o.storage.polite = {.nice = 7,
                        .io = cairn::io_priority::idle,
                        .cpus = {thread_attributes::first_allowed()},
                        .bytes_per_second = 0};
    (void)cairn::save(state.dict, "c", o, watched_store([&] { seen = thread_attributes::here(); }));
    BOOST_TEST(seen.nice == std::max(7, before.nice));
    BOOST_TEST(seen.io == (3 << 13));
    BOOST_TEST(seen.cpus == 1);
    BOOST_TEST(seen.first_cpu);
    BOOST_TEST((thread_attributes::here() == before));

    o.storage.polite = {.io = cairn::io_priority::low};
    (void)cairn::save(state.dict, "c", o, watched_store([&] { seen = thread_attributes::here(); }));
    BOOST_TEST(seen.nice == before.nice);
    BOOST_TEST(seen.io == (2 << 13 | 7));
    BOOST_TEST(seen.cpus == before.cpus);
}

BOOST_AUTO_TEST_CASE(a_politeness_that_cannot_be_had_is_an_error) {
    one_tensor state;
    auto const refused = [&](cairn::politeness p, std::string_view option) {
        cairn::save_options o;
        o.storage.polite = std::move(p);
        BOOST_CHECK_EXCEPTION(cairn::save(state.dict, "c", o, cairn::memory_store()), cairn::error,
                              [&](const cairn::error& e) {
                                  return std::string_view(e.what()).find(option) !=
                                         std::string_view::npos;
                              });
    };
    refused({.nice = -1}, "politeness::nice");
    refused({.nice = 20}, "politeness::nice");
    refused({.cpus = {-1}}, "politeness::cpus");
    refused({.cpus = {CPU_SETSIZE}}, "politeness::cpus");
    refused({.cpus = {CPU_SETSIZE - 1}}, "politeness::cpus could not be applied");
    boost::asio::thread_pool jobs(1);
    cairn::torch_writer_options o;
    o.polite.nice = 1;
    cairn::torch_writer w(cairn::memory_store(), o, jobs.get_executor());
    BOOST_CHECK_EXCEPTION(cairn::save(state.dict, "c", w), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::invalid_argument);
    });
}

BOOST_AUTO_TEST_CASE(bytes_are_spread_over_time) {
    using std::chrono::milliseconds;
    cairn::detail::rate_limit limit(1000);
    auto const start = cairn::detail::rate_limit::clock::time_point(std::chrono::hours(1));
    BOOST_TEST((limit.take(500, start) == start));
    BOOST_TEST((limit.take(250, start) == start + milliseconds(500)));
    BOOST_TEST((limit.take(0, start + milliseconds(600)) == start + milliseconds(750)));
    BOOST_TEST((limit.take(100, start + milliseconds(700)) == start + milliseconds(750)));
    // Idle time is not saved up.
    auto const later = start + std::chrono::seconds(10);
    BOOST_TEST((limit.take(100, later) == later));
    BOOST_TEST((limit.take(100, later) == later + milliseconds(100)));
    cairn::detail::rate_limit none;
    BOOST_TEST((none.take(UINT64_MAX, start) == start));
    BOOST_TEST((none.take(1, start) == start));
}

/// At a byte per second it would take a day.
BOOST_AUTO_TEST_CASE(a_save_that_is_held_back_can_be_cancelled) {
    std::promise<void> begun;
    bool first = true;
    one_tensor state;
    cairn::save_options o;
    o.storage.polite.bytes_per_second = 1;
    o.on_unclaimed_error = [](const std::exception_ptr&) {};
    auto save = cairn::async_save(state.dict, "c", o, watched_store([&] {
                                      if (std::exchange(first, false)) begun.set_value();
                                  }),
                                  boost::asio::use_future)
                    .get();
    begun.get_future().wait();
    // Without a limit it would end long before.
    for (int i = 0; i < 50 && !save.ready(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    BOOST_TEST(!save.ready());
    save.cancel();
    BOOST_CHECK_EXCEPTION(save.wait(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::cancelled);
    });
}

BOOST_AUTO_TEST_SUITE_END()
