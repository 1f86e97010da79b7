// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_BLOCKED_SIGNALS_HPP
#define CAIRN_DETAIL_BLOCKED_SIGNALS_HPP

#include <cairn/detail/cxx20.hpp>

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <initializer_list>

namespace cairn::detail {

/// While it lives, this thread handles no signals but those that report what the thread itself does
/// (a bad access, an abort, a profiler's tick). New threads inherit that: a signal handler of the
/// trainer's must not run on a thread that it does not know.
class blocked_signals {
public:
    blocked_signals() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF})
            ::sigdelset(&all, s);
        blocked_ = ::pthread_sigmask(SIG_SETMASK, &all, &before_) == 0;
    }
    blocked_signals(blocked_signals&&) = delete;
    ~blocked_signals() {
        if (blocked_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t before_{};
    bool blocked_;
};

/// Makes a system call that may exceed the limit of file sizes (`ulimit -f`): it then fails with
/// EFBIG, and without a SIGXFSZ, which would end the program. A SIGXFSZ that was pending before
/// remains pending.
/// @return its result, with its errno
template <class F>
auto without_sigxfsz(F&& call) noexcept {
    sigset_t xfsz, before, pending;
    ::sigemptyset(&xfsz);
    ::sigaddset(&xfsz, SIGXFSZ);
    bool const blocked = ::pthread_sigmask(SIG_BLOCK, &xfsz, &before) == 0;
    bool const was_pending =
        !blocked || (::sigismember(&before, SIGXFSZ) == 1 && ::sigpending(&pending) == 0 &&
                     ::sigismember(&pending, SIGXFSZ) == 1);
    auto const result = call();
    int const e = errno;
    if (result < 0 && e == EFBIG && !was_pending) {
        struct ::timespec const at_once{};
        while (::sigtimedwait(&xfsz, nullptr, &at_once) < 0 && errno == EINTR) {
        }
    }
    if (blocked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = e;
    return result;
}

}  // namespace cairn::detail

#endif
