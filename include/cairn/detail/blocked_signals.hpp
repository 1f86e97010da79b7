// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_BLOCKED_SIGNALS_HPP
#define CAIRN_DETAIL_BLOCKED_SIGNALS_HPP

#include <cairn/detail/cxx20.hpp>

#include <pthread.h>
#include <signal.h>

namespace cairn::detail {

/// While it lives, this thread handles no signals. New threads inherit that: a handler of the
/// trainer's is not to run on a thread that it does not know.
class blocked_signals {
public:
    blocked_signals() noexcept {
        sigset_t all;
        ::sigfillset(&all);
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

}  // namespace cairn::detail

#endif
