// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_HTTP_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_HTTP_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>
#include <cairn/object_store/detail/s3/request.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::detail::s3 {

/// The variables of the environment that name proxies, as libcurl reads them. It must not read them
/// itself: the program may change the environment while a request begins.
struct proxies {
    std::string http{}, https{};  ///< Empty: none.
    std::string none_for{};       ///< Hosts, as in `no_proxy`.

    CAIRN_DECL static proxies read(const environment& get = noted_environment::read);
};

struct http_options {
    std::chrono::milliseconds connect_timeout{};
    std::chrono::seconds stall_timeout{};  ///< Without bytes in either direction.
    std::string ca_file{};                 ///< Empty: the system's certificates.
    proxies by{};
};

/// What one exchange over HTTP has led to.
struct http_result {
    response got{};  ///< Status 0: no whole answer.
    /// Why there is none, in words without secrets.
    std::string failure{};
    /// No byte of the request was sent: it has certainly had no effect.
    bool not_sent = false;
    /// It was sent more than once: a connection that was kept had been closed by the server.
    bool resent = false;
    /// Another try cannot go better, e.g. a certificate that is not trusted.
    bool hopeless = false;
    /// What came is not HTTP: the rest of another answer, as of a body for HEAD, or of no such
    /// server.
    bool not_http = false;
    bool stopped = false;   ///< By the caller's `stop`, or a `heeded_stop`.
    bool too_long = false;  ///< The answer has more bytes than were expected.
};

/// Blocking requests over connections that are kept.
///
/// Thread-safe: each request has a connection of its own while it lasts. Must not be used or
/// destroyed in a forked child, which has none of its connections: see `local`.
class http {
public:
    CAIRN_DECL explicit http(http_options o);
    http(http&&) = delete;
    CAIRN_DECL ~http();

    /// What holds for one exchange.
    struct terms {
        /// Bytes of an answer's body that are accepted, beside those for `into`.
        std::size_t most_body = 0;
        const std::atomic<bool>* stop = nullptr;  ///< Ends it when it becomes true; may be null.
        std::chrono::milliseconds timeout{0};     ///< Of all of it. 0: none.
        std::chrono::seconds stall_timeout{0};    ///< 0: that of the options.
        /// Bytes per second: a slower exchange counts as one on which nothing moves.
        std::uint64_t least_rate = 1;
        bool past_proxies = false;
        bool once = false;  ///< Never sent again over another connection.
    };

    /// Sends a request that is signed already, and receives its answer. Redirections are answers.
    /// @throws std::bad_alloc
    CAIRN_DECL http_result send(const request& r, const terms& t);

private:
    struct exchange;
    struct connection;
    struct connection_deleter {
        CAIRN_DECL void operator()(connection* c) const noexcept;
    };
    using connection_ptr = std::unique_ptr<connection, connection_deleter>;

    connection_ptr take();
    void give_back(connection_ptr c) noexcept;

    http_options options_;
    std::mutex m_{};
    std::vector<connection_ptr> idle_{};
};

/// Directs a request to where a `Location` of its answer leads, which may be relative. Path and
/// query become the target: they may be signed as they are written.
/// @return whether that is a URL of HTTP, without a user name; otherwise nothing has changed
CAIRN_DECL bool redirect(request& r, const std::string& location);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/http.ipp>
#endif

#endif
