// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_HTTP_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_HTTP_IPP

#include <cairn/object_store/detail/s3/http.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/s3/curl_library.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <curl/curl.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

CAIRN_DECL proxies proxies::read(const environment& get) {
    auto const first = [&](auto... names) {
        std::string value;
        for (auto const* const name : {names...})
            if (value.empty()) value = get(name).value_or("");
        return value;
    };
    // Not HTTP_PROXY, which a client of a CGI program could set.
    return {first("http_proxy", "all_proxy", "ALL_PROXY"),
            first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
            first("no_proxy", "NO_PROXY")};
}

/// A handle of libcurl's, with the connection that it keeps.
struct http::connection {
    connection() : curl(::curl_easy_init(), ::curl_easy_cleanup) {
        if (!curl) throw std::bad_alloc();
    }
    connection(connection&&) = delete;

    int fd = -1;  ///< That was opened last; -1: none. Outlives the handle, which closes it.
    std::unique_ptr<::CURL, void (*)(::CURL*)> curl;
};
CAIRN_DECL void http::connection_deleter::operator()(connection* c) const noexcept {
    delete c;
}

/// What the functions that libcurl calls share. None of them lets an exception out.
struct http::exchange {
    exchange(const request& request, const terms& terms) : r(request), t(terms) {}
    exchange(exchange&&) = delete;
    ~exchange() { ::curl_slist_free_all(headers); }

    void add_header(const std::string& line) {
        auto* const longer = ::curl_slist_append(headers, line.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        headers = longer;
    }

    static std::size_t header(char* data, std::size_t, std::size_t n, void* self) noexcept {
        auto& x = *static_cast<exchange*>(self);
        try {
            x.add(std::string_view(data, n));
            return n;
        } catch (const std::exception&) {
            return 0;
        }
    }
    void add(std::string_view line) {
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
        if (line.starts_with("HTTP/")) {  // of the answer itself, after those of a proxy
            result.got.headers.clear();
            return;
        }
        if (line.empty()) return acknowledge();
        auto const colon = line.find(':');
        constexpr std::size_t most_headers = 200;
        if (colon == line.npos || result.got.headers.size() == most_headers) return;
        auto name = lower_case(line.substr(0, colon));
        auto value = line.substr(colon + 1);
        while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
        result.got.headers.emplace_back(std::move(name), value);
    }

    /// Of the head of an answer. A server that writes the body by itself, with Nagle's algorithm as
    /// radosgw by default, sends a small one no sooner, and the kernel waits for 40 ms.
    void acknowledge() const noexcept {
#ifdef TCP_QUICKACK
        int const on = 1;
        if (over->fd >= 0) (void)::setsockopt(over->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
#endif
    }

    static std::size_t receive(char* data, std::size_t, std::size_t n, void* self) noexcept {
        auto& x = *static_cast<exchange*>(self);
        try {
            return x.take({data, n}) ? n : 0;
        } catch (const std::exception&) {
            return 0;
        }
    }
    bool take(std::string_view bytes) {
        long status = 0;
        ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (!r.into.empty() && status == 206) {
            auto const room = r.into.subspan(result.got.received);
            if (bytes.size() > room.size()) return result.too_long = true, false;
            std::memcpy(room.data(), bytes.data(), bytes.size());
            result.got.received += bytes.size();
            return true;
        }
        // The whole object, where a range of it was asked for: the status says so.
        if (!r.into.empty() && status == 200) return whole = true, false;
        if (bytes.size() > t.most_body - result.got.body.size())
            return result.too_long = true, false;
        result.got.body += bytes;
        return true;
    }

    static std::size_t give(char* to, std::size_t, std::size_t n, void* self) noexcept {
        auto& x = *static_cast<exchange*>(self);
        n = std::min(n, x.r.body.size() - x.given);
        if (n != 0) std::memcpy(to, x.r.body.data() + x.given, n);
        x.given += n;
        return n;
    }
    static int rewind(void* self, ::curl_off_t to, int origin) noexcept {
        auto& x = *static_cast<exchange*>(self);
        if (origin != SEEK_SET || to < 0 || static_cast<std::uint64_t>(to) > x.r.body.size())
            return CURL_SEEKFUNC_FAIL;
        x.given = static_cast<std::size_t>(to);
        return CURL_SEEKFUNC_OK;
    }
    /// Called before a request is sent over a connection, each time.
    static int sending(void* self, char*, char*, int, int) noexcept {
        auto& x = *static_cast<exchange*>(self);
        x.resolving.reset();
        if (x.t.once && x.times_sent != 0) {
            x.refused = true;
            return CURL_PREREQFUNC_ABORT;
        }
        ++x.times_sent;
        return CURL_PREREQFUNC_OK;
    }
    static int progress(void* self, ::curl_off_t, ::curl_off_t, ::curl_off_t,
                        ::curl_off_t) noexcept {
        auto const& x = *static_cast<exchange*>(self);
        return (x.t.stop != nullptr && *x.t.stop) || heeded_stop::is_requested() ? 1 : 0;
    }

    /// libcurl looks names up on a thread that inherits which signals are blocked.
    static int resolve(void*, void*, void* self) noexcept {
        static_cast<exchange*>(self)->resolving.emplace();
        return 0;
    }
    static ::curl_socket_t open_socket(void* self, ::curlsocktype, ::curl_sockaddr* a) noexcept {
        auto* const x = static_cast<exchange*>(self);
        if (x != nullptr) x->resolving.reset();
        descriptor_change const opening;
        int const fd = ::socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
        if (fd >= 0) close_in_children(fd, true);
        if (x != nullptr) x->over->fd = fd;
        return fd;
    }
    /// @param over  The connection.
    static int close_socket(void* over, ::curl_socket_t fd) noexcept {
        if (auto* const c = static_cast<connection*>(over); c != nullptr && c->fd == fd) c->fd = -1;
        descriptor_change const closing;
        close_in_children(fd, false);
        return ::close(fd);
    }

    const request& r;
    const terms& t;
    connection* over = nullptr;
    ::CURL* curl = nullptr;
    ::curl_slist* headers = nullptr;
    http_result result{};
    std::size_t given = 0;  ///< Bytes of the body that were passed on.
    int times_sent = 0;
    bool whole = false;
    bool refused = false;  ///< To send it once more.
    std::optional<blocked_signals> resolving{};
};

CAIRN_DECL http::http(http_options o) : options_(std::move(o)) {
    start_curl();
}
CAIRN_DECL http::~http() = default;

CAIRN_DECL http::connection_ptr http::take() {
    {
        std::lock_guard const lock(m_);
        if (!idle_.empty()) {
            auto c = std::move(idle_.back());
            idle_.pop_back();
            return c;
        }
    }
    return connection_ptr(new connection);
}

CAIRN_DECL void http::give_back(connection_ptr c) noexcept {
    ::curl_easy_reset(c->curl.get());  // which keeps its connections
    std::lock_guard const lock(m_);
    try {
        idle_.push_back(std::move(c));
    } catch (const std::bad_alloc&) {  // its connection is closed
    }
}

CAIRN_DECL http_result http::send(const request& r, const terms& t) {
    exchange x(r, t);
    auto over = take();
    x.over = over.get();
    auto* const c = x.curl = over->curl.get();
    auto const set = [c](auto option, auto value) {
        if (auto const e = ::curl_easy_setopt(c, option, value); e == CURLE_OUT_OF_MEMORY)
            throw std::bad_alloc();
    };
    auto const url = url_of(r);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // a name server that is silent is not waited for
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NETRC, long{CURL_NETRC_IGNORED});
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(t.least_rate));
    auto const stall = t.stall_timeout.count() != 0 ? t.stall_timeout : options_.stall_timeout;
    // What libcurl takes.
    constexpr std::int64_t longest = 65535;
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(std::min<std::int64_t>(stall.count(), longest)));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(t.timeout.count()));
    auto const& proxy = r.to.scheme == "https" ? options_.by.https : options_.by.http;
    set(CURLOPT_PROXY, t.past_proxies ? "" : proxy.c_str());
    set(CURLOPT_NOPROXY, options_.by.none_for.c_str());
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_MAXCONNECTS, 2L);
    set(CURLOPT_USERAGENT, "cairn");
    if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
    constexpr long buffer_bytes = 512 << 10;
    set(CURLOPT_BUFFERSIZE, buffer_bytes);
    set(CURLOPT_OPENSOCKETFUNCTION, &exchange::open_socket);
    set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&x));
    set(CURLOPT_CLOSESOCKETFUNCTION, &exchange::close_socket);
    set(CURLOPT_CLOSESOCKETDATA, static_cast<void*>(over.get()));
    set(CURLOPT_RESOLVER_START_FUNCTION, &exchange::resolve);
    set(CURLOPT_RESOLVER_START_DATA, static_cast<void*>(&x));
    set(CURLOPT_PREREQFUNCTION, &exchange::sending);
    set(CURLOPT_PREREQDATA, static_cast<void*>(&x));
    set(CURLOPT_HEADERFUNCTION, &exchange::header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&x));
    set(CURLOPT_WRITEFUNCTION, &exchange::receive);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&x));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &exchange::progress);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&x));

    if (r.method == "HEAD") {
        set(CURLOPT_NOBODY, 1L);
    } else if (r.method == "PUT" || r.method == "POST") {
        set(CURLOPT_UPLOAD, 1L);
        set(CURLOPT_UPLOAD_BUFFERSIZE, buffer_bytes);
        set(CURLOPT_CUSTOMREQUEST, r.method.c_str());
        set(CURLOPT_READFUNCTION, &exchange::give);
        set(CURLOPT_READDATA, static_cast<void*>(&x));
        set(CURLOPT_SEEKFUNCTION, &exchange::rewind);
        set(CURLOPT_SEEKDATA, static_cast<void*>(&x));
        set(CURLOPT_INFILESIZE_LARGE, static_cast<::curl_off_t>(r.body.size()));
    } else {
        set(CURLOPT_HTTPGET, 1L);
        set(CURLOPT_CUSTOMREQUEST, r.method.c_str());
    }
    x.add_header("Host: " + host_of(r.to));
    x.add_header("Expect:");
    for (auto const& [name, value] : r.headers)
        // A name alone would remove the header.
        x.add_header(value.empty() ? name + ";" : name + ": " + value);
    set(CURLOPT_HTTPHEADER, x.headers);

    auto e = CURLE_OK;
    {
        without_sigpipe const quiet;
        e = ::curl_easy_perform(c);
        x.resolving.reset();  // before the signals that it restores have changed
    }
    auto& result = x.result;
    result.resent = x.times_sent > 1;
    if (e == CURLE_OK || x.whole) {
        long status = 0;
        ::curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
        result.got.status = static_cast<int>(status);
        // A body that ends with its connection, e.g. of a proxy, may have been cut, also where a
        // later proxy has put it into chunks.
        auto& got = result.got;
        if (status == 206 && r.method == "GET" &&
            got.received + got.body.size() < size_of_part(got, r.into.size())) {
            got.status = 0;
            result.failure = "an answer that ended early";
        }
    } else {
        result.failure = ::curl_easy_strerror(e);
        result.not_sent = x.times_sent == 0;
        // By `sending`: the connection had been closed, and a second try is up to the caller.
        bool const not_resent = e == CURLE_ABORTED_BY_CALLBACK && x.refused;
        if (not_resent) result.failure = "the connection was closed";
        result.stopped = e == CURLE_ABORTED_BY_CALLBACK && !not_resent;
        result.not_http = e == CURLE_UNSUPPORTED_PROTOCOL && !result.not_sent;
        if (result.not_http) result.failure = "what came is not HTTP";
        result.hopeless = is_hopeless(e) && !not_resent && !result.not_http;
        if (result.too_long) result.failure = "an answer that is longer than it should be";
    }
    // After a failure, what is left of the answer is on no connection that is kept.
    give_back(std::move(over));
    return std::move(x.result);
}

/// A URL as libcurl takes it apart.
class curl_url {
public:
    curl_url() : parts_(::curl_url(), ::curl_url_cleanup) {
        if (!parts_) throw std::bad_alloc();
    }
    /// @param text  May be relative to the one before.
    bool set(const std::string& text) {
        constexpr unsigned how =
            CURLU_PATH_AS_IS | CURLU_DISALLOW_USER | CURLU_URLENCODE | CURLU_ALLOW_SPACE;
        return check(::curl_url_set(parts_.get(), CURLUPART_URL, text.c_str(), how));
    }
    /// Empty if it has no such part.
    std::string get(::CURLUPart part) const {
        char* text = nullptr;
        if (!check(::curl_url_get(parts_.get(), part, &text, 0))) return {};
        std::unique_ptr<char, void (*)(void*)> const owned(text, ::curl_free);
        return text;
    }

private:
    static bool check(::CURLUcode e) {
        if (e == CURLUE_OUT_OF_MEMORY) throw std::bad_alloc();
        return e == CURLUE_OK;
    }

    std::unique_ptr<::CURLU, void (*)(::CURLU*)> parts_;
};

CAIRN_DECL bool redirect(request& r, const std::string& location) {
    curl_url u;
    if (location.empty() || !u.set(url_of(r)) || !u.set(location)) return false;
    origin to;
    to.scheme = u.get(CURLUPART_SCHEME);
    if (to.scheme != "https" && to.scheme != "http") return false;
    to.host = lower_case(u.get(CURLUPART_HOST));
    to.port = static_cast<int>(number_in(u.get(CURLUPART_PORT)).value_or(0));
    auto const query = u.get(CURLUPART_QUERY);
    r.target = u.get(CURLUPART_PATH) + (query.empty() ? "" : "?" + query);
    r.to = std::move(to);
    return true;
}

}  // namespace cairn::detail::s3

#endif
