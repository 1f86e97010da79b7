// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_CLIENT_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_CLIENT_IPP

#include <cairn/object_store/detail/s3/client.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/s3/credentials.hpp>
#include <cairn/object_store/detail/s3/retries.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>

#include <curl/curl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

/// What is known of one call beside its answer.
struct client::trying {
    std::string region{};  ///< The latest try was signed for.
    std::size_t tries = 0;
    bool in_doubt = false;
    std::optional<origin> elsewhere{};  ///< Where the server wants this one.
    std::shared_ptr<const s3_credentials> keys{};
    // Each is put right once.
    bool renewed = false, clock_set = false, changed = false;
    int redirects = 0;
};

CAIRN_DECL client::client(const store_settings& s)
    : s_(s), http_({s.options.connect_timeout, s.options.stall_timeout, s.options.ca_file, s.by}),
      credentials_(
          s.options.credentials, s.environment,
          [this](const request& r, std::chrono::milliseconds timeout) { return ask(r, timeout); },
          [this] { return now(); }),
      region_(s.options.region) {}

/// Of a service that hands out credentials.
CAIRN_DECL response client::ask(const request& r, std::chrono::milliseconds timeout) {
    bool const is_near = is_loopback(r.to.host) || r.to.host.starts_with("169.254.") ||
                         lower_case(r.to.host).starts_with("[fe80:") ||
                         lower_case(r.to.host).starts_with("[fd00:ec2::");
    auto x = http_.send(
        r, {.most_body = std::size_t{1} << 20, .timeout = timeout, .past_proxies = is_near});
    if (x.got.status == 0)
        throw error(errc::io, {.file = r.to.scheme + "://" + host_of(r.to),
                               .expected = "an answer with credentials",
                               .found = x.failure});
    return std::move(x.got);
}

CAIRN_DECL std::string client::region() const {
    std::lock_guard const lock(m_);
    return region_;
}

CAIRN_DECL std::chrono::system_clock::time_point client::now() const noexcept {
    return std::chrono::system_clock::now() + std::chrono::seconds(behind_);
}

CAIRN_DECL call client::about(const char* method, std::string key, const char* right) const {
    call c;
    c.method = method;
    c.what = s_.describe(key);
    c.key = std::move(key);
    c.right = right;
    return c;
}

CAIRN_DECL request client::make(const call& c, const trying& t) const {
    request r;
    r.method = c.method;
    auto const where = region();
    r.to = t.elsewhere ? *t.elsewhere : s_.host(where);
    r.path = s_.path(c.key);
    r.query = c.query;
    r.headers = c.headers;
    auto const add = [&](const auto& more) {
        r.headers.insert(r.headers.end(), more.begin(), more.end());
    };
    add(s_.options.headers);
    if (c.creates) add(s_.options.creation_headers);
    r.body = c.body;
    r.into = c.into;
    r.headers = signed_headers(r, *t.keys, where, now(), s_.signs);
    return r;
}

/// Reads code, message and region of an answer that is an error, if it says them.
inline void read_error(answer& a) {
    auto const note_region = [&](std::string_view named) {
        if (a.region.empty() && is_region(named)) a.region = named;
    };
    note_region(a.got.header("x-amz-bucket-region"));
    if (a.got.body.empty()) return;
    try {
        auto const tree = parse_xml(a.got.body);
        auto const e = tree.get_child_optional("Error");
        if (!e) return;
        a.code = trimmed(e->get("Code", ""));
        a.message = trimmed(e->get("Message", ""));
        note_region(trimmed(e->get("Region", "")));
        if (a.code == "RequestTimeTooSkewed")
            a.server_time = parse_utc_time(trimmed(e->get("ServerTime", "")));
    } catch (const error&) {  // not S3's: of a proxy, perhaps
    }
}

/// How long one try of a call may take, however little moves.
CAIRN_DECL http::terms client::terms_of(const call& c) const {
    auto const& o = s_.options;
    http::terms t;
    t.most_body = c.most_body;
    t.stop = c.stop;
    t.once = c.may_repeat != nullptr;
    // A large object is put together while nothing is heard of it, or blanks now and then.
    t.stall_timeout = o.stall_timeout * (c.may_fail_late ? 10 : 1);
    if (!c.may_fail_late) t.least_rate = o.least_rate;
    constexpr std::uint64_t of_an_answer = std::uint64_t{1} << 20;  // a page of a listing
    auto const bytes =
        c.body.size() + std::max<std::uint64_t>(c.expected, c.into.size()) + of_an_answer;
    t.timeout = o.connect_timeout + t.stall_timeout + std::chrono::seconds(bytes / o.least_rate);
    if (c.tidies) t.timeout = std::min<std::chrono::milliseconds>(t.timeout, patience_to_tidy);
    return t;
}

/// Whether somebody waits for it no longer.
inline bool is_stopped(const call& c) {
    return (c.stop != nullptr && *c.stop) || heeded_stop::is_requested();
}

/// Whether an answer can be S3's, as far as its form shows: a proxy that answers with a page of its
/// own has done nothing, and says nothing about the object.
inline bool is_of_s3(const call& c, const answer& a) {
    if (!c.key.empty() && c.method != "POST" && c.method != "DELETE")
        return !a.got.header("etag").empty();
    // A listing, or the beginning of an upload: its last word shows that it was not cut.
    if (c.method == "GET" || (c.method == "POST" && !c.may_fail_late))
        return trimmed(a.got.body).ends_with("Result>");
    return c.method != "DELETE" || a.got.body.empty();
}

/// The status that goes with an error of S3's, where it comes with another one.
inline int status_of(std::string_view code) {
    if (code == "PreconditionFailed") return 412;
    if (code == "SlowDown" || code == "ServiceUnavailable") return 503;
    if (code == "NotImplemented") return 501;
    if (code.starts_with("NoSuch")) return 404;
    if (code == "InvalidArgument" || is_about_expiry(code)) return 400;
    for (auto const* const denied :
         {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed"})
        if (code == denied) return 403;
    return 500;
}

/// A page of a proxy is as good as no answer.
inline void note_page(const call& c, answer& a, int status = 502) {
    if (a.code.empty())
        a.message = std::to_string(a.got.status) +
                    " with a text that is not S3's: cut, or of a proxy or another service, perhaps";
    a.is_page = a.code.empty();
    a.got.status = status;
    a.in_doubt = c.method != "GET";
}

CAIRN_DECL answer client::exchange(const call& c, const trying& t) {
    auto const r = make(c, t);
    ++requests_;
    auto x = http_.send(r, terms_of(c));
    answer a;
    a.got = std::move(x.got);
    a.failure = std::move(x.failure);
    a.asked = r.to.scheme + "://" + host_of(r.to);
    a.stopped = x.stopped;
    a.hopeless = x.hopeless;
    a.is_page = x.not_http;
    a.in_doubt = x.resent || (a.is(0) && !x.not_sent) || a.is(408) || a.got.status >= 500;
    if (!a.is(0)) sent_ += c.key.empty() ? 0 : c.body.size();
    received_ += a.got.received;
    if (!a.ok()) {
        read_error(a);
        if (a.is(404) && a.code.empty() && c.method != "HEAD") note_page(c, a);
    } else if (!is_of_s3(c, a)) {
        read_error(a);
        note_page(c, a, a.code.empty() ? 502 : status_of(a.code));
    } else if (c.may_fail_late) {
        read_error(a);
        // A proxy's page, or nothing, is no confirmation.
        bool const is_confirmed =
            a.got.body.find("CompleteMultipartUploadResult") != a.got.body.npos;
        if (!a.code.empty() || !is_confirmed) {
            a.got.status = status_of(a.code);
            a.in_doubt = a.in_doubt || !(a.is(412) || a.code == "NoSuchUpload");
        }
    }
    if (a.is(429) || a.is(503)) ++throttled_;
    return a;
}

/// The answer to HEAD has no words: why it failed is asked for by a GET.
CAIRN_DECL void client::explain_head(const call& c, const trying& t, answer& a) {
    // S3 names each request; a proxy whose server is away may say 404, too.
    bool const may_be_page = a.is(404) && a.got.header("x-amz-request-id").empty();
    bool const unclear = a.is(400) || a.is(403) || may_be_page || (a.is(404) && !bucket_is_there_);
    if (c.method != "HEAD" || !unclear) return;
    auto get = c;
    get.method = "GET";
    get.headers.emplace_back("range", "bytes=0-0");
    get.most_body = std::size_t{64} << 10;
    auto why = exchange(get, t);
    if (may_be_page && !why.is(404)) note_page(c, a);
    if (!why.is(a.got.status)) return;
    a.code = std::move(why.code);
    a.message = std::move(why.message);
    if (a.region.empty()) a.region = std::move(why.region);
    a.server_time = why.server_time;
}

CAIRN_DECL answer client::try_once(const call& c, trying& t) {
    t.keys = credentials_.get();
    t.region = region();
    bool const before = std::exchange(t.in_doubt, true);  // for exceptions
    auto a = exchange(c, t);
    t.in_doubt = before;
    explain_head(c, t, a);
    if (a.ok() || (a.is(404) && a.code == "NoSuchKey")) bucket_is_there_ = true;
    if (a.ok() || !a.code.empty()) has_answered_ = true;
    t.in_doubt = a.in_doubt = a.in_doubt || t.in_doubt;
    a.tries = ++t.tries;
    a.changed_before = t.changed;
    t.changed = t.changed || is_changed_on_the_way(a);
    return a;
}

/// Whether this clock was wrong, and is not any more.
CAIRN_DECL bool client::set_clock(const answer& a) {
    using std::chrono::system_clock;
    auto theirs = a.server_time;
    if (std::string const date(a.got.header("date")); !date.empty())
        if (auto const t = ::curl_getdate(date.c_str(), nullptr); t != -1)
            theirs = system_clock::from_time_t(t);
    if (!theirs) return false;
    auto const behind = [&](auto mine) {
        return std::chrono::floor<std::chrono::seconds>(*theirs - mine).count();
    };
    constexpr std::int64_t tolerated = 240;  // AWS: 15 minutes; others have less
    if (a.code != "RequestTimeTooSkewed" && std::abs(behind(now())) < tolerated) return false;
    behind_ = behind(system_clock::now());  // whatever other threads have found meanwhile
    return true;
}

/// Whether the call is worth another try, elsewhere.
CAIRN_DECL bool client::follow(const answer& a, trying& t) {
    if (t.redirects++ == 3) return false;
    // Not that of the next try: another thread may have learned it already.
    bool const changed = !a.region.empty() && a.region != t.region;
    if (changed) {
        std::lock_guard const lock(m_);
        region_ = a.region;
    }
    if (!s_.endpoint.to.host.empty()) return changed;
    // Keys are never sent to a host that is not AWS's.
    std::string const location(a.got.header("location"));
    if (!location.empty()) {
        try {
            auto to = parse_url(location, "Location").to;
            if (to.scheme == s_.host(region()).scheme && is_aws_host(to.host)) {
                t.elsewhere = std::move(to);
                return true;
            }
        } catch (const error&) {  // no URL
        }
    }
    return changed;
}

/// Whether what made it fail is put right.
CAIRN_DECL bool client::put_right(trying& t, const answer& a) {
    if (a.is(403) && !std::exchange(t.clock_set, true) && set_clock(a)) return true;
    // An answer to credentials that have expired may name the bucket's region, too.
    if (is_about_expiry(a.code))
        return !std::exchange(t.renewed, true) && *credentials_.renew(*t.keys) != *t.keys;
    bool const moved = a.is(301) || a.is(302) || a.is(307) || a.is(308);
    return (moved || (a.is(400) && !a.region.empty())) && follow(a, t);
}

CAIRN_DECL bool is_changed_on_the_way(const answer& a) {
    for (auto const* const code : {"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch",
                                   "XAmzContentChecksumMismatch"})
        if (a.code == code) return true;
    return false;
}
CAIRN_DECL bool is_transient(const answer& a) {
    if (a.is(0)) return !a.hopeless && !a.stopped;
    // Proxies have statuses of their own, e.g. 520.
    bool const is_final = a.is(501) || a.is(505) || a.is(507);  // no space left
    if (a.is(408) || a.is(429) || (a.got.status >= 500 && !is_final)) return true;
    for (auto const* const code : {"RequestTimeout", "SlowDown", "OperationAborted",
                                   "ConditionalRequestConflict", "InternalError"})
        if (a.code == code) return true;
    // Once only: it may have been wrong before.
    return is_changed_on_the_way(a) && !a.changed_before;
}

/// How long a page is waited for to go away before there was an answer of S3's.
inline constexpr std::chrono::seconds first_patience{5};

CAIRN_DECL answer client::send(const call& c) {
    trying t;
    auto longest = s_.options.retry_for;
    if (c.tidies) longest = std::min<std::chrono::milliseconds>(longest, patience_to_tidy);
    retries patience(longest);
    retries at_first(first_patience);
    for (;;) {
        answer a;
        try {
            a = try_once(c, t);
            a.stopped = !a.ok() && is_stopped(c);
            if (a.ok() || a.stopped) return a;
            if (!put_right(t, a)) {
                if (!is_transient(a)) return a;
                auto const again = patience.next(a.got);
                // Where nothing has been S3 yet, the endpoint is probably wrong.
                bool const is_stranger = a.is_page && !has_answered_;
                if (!again || (is_stranger && !at_first.next())) return a;
                // Whoever destroys an upload waits for this.
                a.stopped = !retries::sleep_until(*again, [&] { return is_stopped(c); });
                if (a.stopped) return a;
            }
            if (c.may_repeat && !c.may_repeat()) return a;
            ++retries_;
        } catch (const std::exception& e) {
            if (t.tries == 0 || !t.in_doubt) throw;
            // An earlier try may have its effect yet: the caller must know.
            a = {};
            a.in_doubt = a.hopeless = true;
            a.tries = t.tries;
            a.failure = e.what();
            return a;
        }
    }
}

CAIRN_DECL answer client::expect(const call& c) {
    auto a = send(c);
    if (!a.ok()) throw failure(c, a);
    return a;
}

CAIRN_DECL s3_statistics client::statistics() const noexcept {
    return {requests_, retries_, throttled_, sent_, received_};
}

}  // namespace cairn::detail::s3

#endif
