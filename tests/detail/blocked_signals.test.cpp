// SPDX-License-Identifier: Apache-2.0
// Handlers of the program do not run on threads of cairn's, and no write of cairn's ends it.
#include "support/scratch.hpp"

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/own_thread.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/verb/operation_thread.hpp>

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <future>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(blocked_signals)

namespace {

/// Of all signals that a thread can block, those that it does not.
std::vector<int> let_through() {
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    std::vector<int> out;
    for (int s = 1; s < NSIG; ++s)
        if (s != SIGKILL && s != SIGSTOP && (s < 32 || s >= SIGRTMIN) &&
            ::sigismember(&blocked, s) == 0)
            out.push_back(s);
    return out;
}
std::vector<int> const faults{SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGPROF, SIGSYS};

/// In a process of its own, whose files may have 100 KiB. A signal ends it.
template <class F>
int with_little_room(F&& f) {
    std::cout.flush();
    auto const child = ::fork();
    if (child == 0) {
        for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGXFSZ}) ::signal(s, SIG_DFL);
        ::rlimit const room{100 << 10, 100 << 10};
        ::setrlimit(RLIMIT_FSIZE, &room);
        int status = 9;
        try {
            status = f();
        } catch (const std::exception& e) {
            std::cout << "    " << e.what() << std::endl;
        }
        ::_exit(status);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
template <class F>
bool says_why(F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::io) &&
               std::string_view(e.what()).find("ulimit -f") != std::string_view::npos;
    }
    return false;
}
bool is_pending(int s) {
    sigset_t pending;
    return ::sigpending(&pending) == 0 && ::sigismember(&pending, s) == 1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_of_cairn_handle_faults_alone) {
    auto const before = let_through();
    std::vector<int> of_pool;
    {
        cairn::detail::own_thread t;
        t.start([&] { of_pool = let_through(); });
    }
    BOOST_TEST(of_pool == faults);
    std::promise<std::vector<int>> of_operation;
    {
        auto const there = cairn::detail::new_operation_thread("a test");
        boost::asio::post(there.executor, [&] { of_operation.set_value(let_through()); });
    }
    BOOST_TEST(of_operation.get_future().get() == faults);
    BOOST_TEST(let_through() == before);
}

BOOST_AUTO_TEST_CASE(a_file_beyond_the_limit_is_an_error) {
    for (bool const direct : {false, true}) {
        support::scratch s;
        BOOST_TEST(with_little_room([&] {
                       cairn::file_store store(s.dir, {.direct_writes = direct});
                       if (!says_why([&] { (void)store.create("a", 1 << 20); })) return 1;
                       // What does not reserve: no file of this size, but of the next.
                       cairn::byte_vector const some(200 << 10);
                       if (!says_why([&] { store.publish("m", some, std::nullopt); })) return 2;
                       auto small = store.create("b", 1000);
                       small.write(0, cairn::byte_span(some).first(1000));
                       small.finish(true);
                       return is_pending(SIGXFSZ) ? 3 : 0;
                   }) == 0);
    }
    // Standard error may be a file.
    support::scratch s;
    BOOST_TEST(with_little_room([&] {
                   int const fd = ::open((s.dir / "log").c_str(), O_WRONLY | O_CREAT, 0600);
                   (void)!::ftruncate(fd, 100 << 10);
                   ::lseek(fd, 0, SEEK_END);
                   cairn::progress_output_to(fd).write("a line");
                   return is_pending(SIGXFSZ) ? 3 : 0;
               }) == 0);
}

/// The program's own is its own.
BOOST_AUTO_TEST_CASE(a_signal_that_was_pending_stays) {
    support::scratch s;
    BOOST_TEST(with_little_room([&] {
                   sigset_t xfsz;
                   ::sigemptyset(&xfsz);
                   ::sigaddset(&xfsz, SIGXFSZ);
                   ::pthread_sigmask(SIG_BLOCK, &xfsz, nullptr);
                   cairn::file_store store(s.dir);
                   if (!says_why([&] { (void)store.create("a", 1 << 20); })) return 1;
                   if (is_pending(SIGXFSZ)) return 2;
                   ::raise(SIGXFSZ);
                   if (!says_why([&] { (void)store.create("a", 1 << 20); })) return 3;
                   return is_pending(SIGXFSZ) ? 0 : 4;
               }) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
