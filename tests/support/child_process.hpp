// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_CHILD_PROCESS_HPP
#define CAIRN_TEST_SUPPORT_CHILD_PROCESS_HPP

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace support {

inline bool in_a_child = false;

inline void restore_signals() {
    in_a_child = true;
    // Boost.Test would go on with the next test.
    for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) ::signal(s, SIG_DFL);
}
/// Ends by itself, unless it is stuck.
template <class F>
::pid_t child_that(F&& f) {
    std::cout.flush();
    auto const child = ::fork();
    if (child != 0) return child;
    restore_signals();
    ::alarm(30);
    int status = 1;
    try {
        status = f();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "    in a child: %s\n", e.what());
    }
    std::exit(status);
}
/// What it has exited with; -1 minus the signal that has killed it.
inline int end_of(::pid_t child) {
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    int const end = WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
    if (end != 0) std::fprintf(stderr, "    a child has ended with %d\n", end);
    return end;
}

/// Whether a process has a descriptor of a file below a directory.
inline bool has_open(::pid_t process, const std::filesystem::path& below) {
    auto const fds = "/proc/" + std::to_string(process) + "/fd";
    for (auto const& e : std::filesystem::directory_iterator(fds)) {
        std::array<char, 4096> to{};
        auto const n = ::readlink(e.path().c_str(), to.data(), to.size());
        if (n > 0 && std::string_view(to.data(), static_cast<std::size_t>(n))
                         .starts_with(std::filesystem::canonical(below).string()))
            return true;
    }
    return false;
}
inline int sockets_of(::pid_t process) {
    int count = 0;
    auto const fds = "/proc/" + std::to_string(process) + "/fd";
    for (auto const& e : std::filesystem::directory_iterator(fds)) {
        std::array<char, 64> to{};
        auto const n = ::readlink(e.path().c_str(), to.data(), to.size());
        count += n > 0 && std::string_view(to.data()).starts_with("socket:") ? 1 : 0;
    }
    return count;
}

}  // namespace support

#endif
