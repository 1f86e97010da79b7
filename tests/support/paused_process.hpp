// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_PAUSED_PROCESS_HPP
#define CAIRN_TEST_SUPPORT_PAUSED_PROCESS_HPP

#include <cairn/object_store/concepts.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace support {

/// A process of its own that has run a function, keeps what that made, and waits to be killed: at
/// the latest when this object ends.
class paused_process {
public:
    /// @param f Called in the new process as `f(park)`, and must call `park(bytes)` once: the
    ///     constructor then returns, with the bytes in `said()`, and `park` does not.
    template <class F>
    explicit paused_process(F&& f) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
        std::cout.flush();
        pid_ = ::fork();
        if (pid_ == 0) run(std::forward<F>(f), ends);
        ::close(ends[1]);
        std::array<std::byte, 4096> some{};
        if (pid_ > 0)
            for (::ssize_t n; (n = ::read(ends[0], some.data(), some.size())) > 0;)
                said_.insert(said_.end(), some.begin(), some.begin() + n);
        ::close(ends[0]);
        if (said_.empty()) {
            end();
            throw std::runtime_error("the other process has failed");
        }
    }
    paused_process(paused_process&&) = delete;
    ~paused_process() { end(); }

    ::pid_t pid() const { return pid_; }
    const cairn::byte_vector& said() const { return said_; }

    /// Kills it. Until this object ends it is a zombie.
    void kill() const {
        ::kill(pid_, SIGKILL);
        ::siginfo_t info;
        ::waitid(P_PID, static_cast<::id_t>(pid_), &info, WEXITED | WNOWAIT);
    }

private:
    template <class F>
    [[noreturn]] static void run(F&& f, const std::array<int, 2>& ends) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        // Boost.Test would go on with the next test.
        for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) ::signal(s, SIG_DFL);
        try {
            f([&](const cairn::byte_vector& bytes) {
                (void)!::write(ends[1], bytes.data(), bytes.size());
                ::close(ends[1]);
                for (;;) ::pause();
            });
        } catch (const std::exception& e) {
            std::cout << "    in another process: " << e.what() << std::endl;
        }
        ::_exit(1);
    }
    void end() const {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    ::pid_t pid_ = -1;
    cairn::byte_vector said_;
};

}  // namespace support

#endif
