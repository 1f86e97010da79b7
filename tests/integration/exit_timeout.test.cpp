// SPDX-License-Identifier: Apache-2.0
// A process that ends although a save in the background is stuck: docs/how-do-i.md.
#include "save/background_ranks.hpp"

#include <cairn/async_save.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(exit_timeout)

namespace {

namespace asio = boost::asio;

/// Ends the process while its save waits for ever. It is killed if it waits for that save.
[[noreturn]] void end_while_saving() {
    for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGALRM}) ::signal(s, SIG_DFL);
    ::alarm(30);
    cairn::set_exit_timeout(std::chrono::milliseconds(50));
    auto const g = std::make_shared<background_ranks::gate>();
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    cairn::pending_save pending;
    asio::io_context io;
    cairn::async_save(sd, "a stuck place", background_ranks::gated_store(cairn::memory_store(), g),
                      asio::bind_executor(io, [&](std::exception_ptr e, cairn::pending_save p) {
                          if (!e) pending = std::move(p);
                      }));
    io.run();
    if (!pending || !g->wait_for(1)) ::_exit(3);
    std::exit(0);
}

/// Ends the process in a handler that runs on a thread of cairn's. It is killed if it waits for
/// that thread.
[[noreturn]] void end_in_a_handler() {
    for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGALRM}) ::signal(s, SIG_DFL);
    ::alarm(30);
    cairn::set_exit_timeout(cairn::no_timeout);
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    cairn::async_save(
        sd, "c", cairn::memory_store(),
        [](std::exception_ptr e, const cairn::pending_save&) { std::exit(e ? 3 : 0); });
    for (;;) ::pause();
}

struct ended {
    int status = 0;
    std::string said{};
};
ended end_of_child(void (*run)()) {
    ended e;
    int pipes[2];
    BOOST_REQUIRE(::pipe(pipes) == 0);
    std::cout.flush();
    auto const child = ::fork();
    if (child == 0) {
        ::dup2(pipes[1], STDERR_FILENO);
        ::close(pipes[0]);
        ::close(pipes[1]);
        run();
    }
    ::close(pipes[1]);
    std::array<char, 1024> some;
    for (ssize_t n = 0; (n = ::read(pipes[0], some.data(), some.size())) > 0;)
        e.said.append(some.data(), static_cast<std::size_t>(n));
    ::close(pipes[0]);
    BOOST_REQUIRE(::waitpid(child, &e.status, 0) == child);
    return e;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_that_is_stuck_is_named_and_left) {
    auto const e = end_of_child(end_while_saving);
    BOOST_TEST((WIFEXITED(e.status) && WEXITSTATUS(e.status) != 3), e.said);
    BOOST_TEST(e.said.find("exiting although the save to 'a stuck place' is still running") !=
                   std::string::npos,
               e.said);
}

BOOST_AUTO_TEST_CASE(exit_in_a_handler_does_not_wait_for_that_handler) {
    auto const e = end_of_child(end_in_a_handler);
    BOOST_TEST((WIFEXITED(e.status) && WEXITSTATUS(e.status) != 3), e.said);
    BOOST_TEST(e.said.find("exiting although") == std::string::npos, e.said);
}

BOOST_AUTO_TEST_SUITE_END()
