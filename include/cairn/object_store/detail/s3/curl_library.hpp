// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CURL_LIBRARY_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CURL_LIBRARY_HPP

#include <cairn/detail/cxx20.hpp>

#include <curl/curl.h>

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>

#if LIBCURL_VERSION_NUM < 0x075800
#error cairn/object_store/s3.hpp needs libcurl 7.88 or newer
#endif

namespace cairn::detail::s3 {

/// Sets libcurl up, once for the process. It stays so: others may use it.
inline void start_curl() {
    [[maybe_unused]] static auto const done = ::curl_global_init(CURL_GLOBAL_DEFAULT);
}

/// Whether another try would fail alike.
inline bool is_hopeless(::CURLcode e) noexcept {
    switch (e) {
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_URL_MALFORMAT:
        case CURLE_NOT_BUILT_IN:
        case CURLE_FUNCTION_NOT_FOUND:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CIPHER:
        case CURLE_SSL_ENGINE_NOTFOUND:
        case CURLE_WRITE_ERROR:  // an answer that is too long
        case CURLE_ABORTED_BY_CALLBACK: return true;
        default: return false;
    }
}

/// While it lives, a connection that the other side has closed raises no signal on this thread, by
/// whatever library writes to it. One that was pending before remains pending.
class without_sigpipe {
public:
    without_sigpipe() noexcept {
        ::sigemptyset(&pipe_);
        ::sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        was_pending_ = ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 1;
        blocked_ = ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_) == 0;
    }
    without_sigpipe(without_sigpipe&&) = delete;
    ~without_sigpipe() {
        if (!blocked_) return;
        struct ::timespec const at_once{};
        if (!was_pending_ && ::sigismember(&before_, SIGPIPE) == 0)
            while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t pipe_{}, before_{};
    bool was_pending_ = false, blocked_ = false;
};

}  // namespace cairn::detail::s3

#endif
