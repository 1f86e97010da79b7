// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_HTTPS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_HTTPS_IPP

#include <cairn/object_store/https.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/detail/fits_in.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/detail/s3/http.hpp>
#include <cairn/object_store/detail/s3/one_per_process.hpp>
#include <cairn/object_store/detail/s3/retries.hpp>
#include <cairn/object_store/detail/s3/settings.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn {

static_assert(ManyRequestsStore<https_store> && RelocatableStore<https_store> &&
              ReadSizeStore<https_store>);

/// What copies share.
struct https_store::state {
    using request = detail::s3::request;
    using result = detail::s3::http_result;
    using url = detail::s3::url;

    state(url u, https_options o)
        : base(std::move(u)), options(std::move(o)), connections(connect()) {}

    detail::s3::http& wire() {
        return connections.here([this] { return connect(); });
    }
    /// Of one exchange, for so many bytes.
    detail::s3::http::terms terms_for(std::size_t bytes) const {
        constexpr std::size_t most_body = 64 << 10;
        detail::s3::http::terms t;
        t.most_body = most_body;
        t.least_rate = options.least_rate;
        t.timeout = options.connect_timeout + options.stall_timeout +
                    std::chrono::seconds((bytes + most_body) / options.least_rate);
        return t;
    }
    bool may_go_to(const detail::s3::origin& to) const {
        return to.scheme == "https" || (to.scheme == "http" && detail::s3::is_loopback(to.host) &&
                                        base.to.scheme == "http");
    }

    url base;  ///< Of the first store.
    https_options options;
    detail::s3::proxies by = detail::s3::proxies::read();

private:
    std::unique_ptr<detail::s3::http> connect() const {
        return std::make_unique<detail::s3::http>(detail::s3::http_options{
            options.connect_timeout, options.stall_timeout, options.ca_file, by});
    }

    detail::s3::one_per_process<detail::s3::http> connections;
};

/// A file that was opened. What redirections led to may be for a while only.
struct https_store::found {
    using request = detail::s3::request;
    using response = detail::s3::response;

    /// Where redirections have led to a range of it: the next request begins there, because hosts
    /// that redirect, as model hubs, limit the number of requests.
    class destination {
    public:
        /// @return whether it is known
        bool set(request& r) const {
            std::lock_guard const lock(m_);
            if (target_.empty()) return false;
            r.to = to_;
            r.target = target_;
            return true;
        }
        void note(const request& r) {
            std::lock_guard const lock(m_);
            to_ = r.to;
            target_ = r.target;
        }
        void forget() {
            std::lock_guard const lock(m_);
            target_.clear();
        }

    private:
        mutable std::mutex m_{};
        detail::s3::origin to_{};
        std::string target_{};  ///< Empty: not known.
    };

    /// Asks for a range of bytes, following redirections.
    /// @throws error if there is no answer, or one that is a failure
    response get(std::uint64_t first, std::uint64_t last, std::span<std::byte> into) const {
        for (detail::s3::retries patience(s->options.retry_for);;) {
            auto r = follow(first, last, into);
            bool const may_pass =
                r.got.status == 0 ? !r.hopeless : r.got.status == 429 || r.got.status >= 500;
            auto const again = may_pass ? patience.next(r.got) : std::nullopt;
            if (r.stopped || (again && !detail::s3::retries::sleep_until(
                                           *again, detail::heeded_stop::is_requested)))
                throw error(errc::cancelled, {.file = described});
            if (again) continue;
            if (r.got.status == 0) throw failed("no answer: " + r.failure);
            return std::move(r.got);
        }
    }
    state::result follow(std::uint64_t first, std::uint64_t last, std::span<std::byte> into) const {
        request r;
        r.into = into;
        auto& led_to = destinations.here([] { return std::make_unique<destination>(); });
        bool direct = led_to.set(r);
        auto const begin = [&] {
            r.to = s->base.to;
            r.target = target;
        };
        if (!direct) begin();
        int redirections = 0;
        // Whether what was remembered is of no use, so that all begins anew.
        auto const is_over = [&] {
            if (!std::exchange(direct, false)) return false;
            led_to.forget();
            begin();
            redirections = -1;
            return true;
        };
        for (;; ++redirections) {
            r.headers = {{"range", "bytes=" + std::to_string(first) + "-" + std::to_string(last)},
                         {"accept-encoding", "identity"}};
            if (!s->options.authorization.empty() && host_of(r.to) == host_of(s->base.to) &&
                r.to.scheme == s->base.to.scheme)
                r.headers.emplace_back("authorization", s->options.authorization);
            auto answer = s->wire().send(r, s->terms_for(into.size()));
            auto const status = answer.got.status;
            if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308) {
                // What was remembered may be for one range.
                bool const is_other =
                    direct && detail::s3::other_range(answer.got, first, last - first + 1);
                if (status == 206 && !is_other) {
                    if (redirections != 0) led_to.note(r);
                    return answer;
                }
                if (answer.stopped || !is_over()) return answer;
                // What may pass is waited for first.
                if (status == 429 || status >= 500) return answer;
                continue;
            }
            auto const why = [&]() -> std::string {
                if (redirections == most_redirections) return "a redirection that does not end";
                if (!detail::s3::redirect(r, std::string(answer.got.header("location"))))
                    return "a redirection to what is no URL of HTTP";
                if (!s->may_go_to(r.to))
                    return "a redirection to " + r.to.scheme + "://" + r.to.host;
                return {};
            }();
            if (!why.empty() && !is_over()) throw failed(why);
        }
    }
    /// @throws error unless the answer is a range
    void check(const response& r) const {
        switch (r.status) {
            case 206: return;
            case 404:
            case 410: throw error(errc::not_found, {.file = described});
            case 401:
            case 403:
                throw error(errc::permission_denied,
                            {.file = described,
                             .found = "status " + std::to_string(r.status),
                             .remedy = "set https_options::authorization, or check its rights"});
            case 200:
                throw error(errc::unsupported,
                            {.file = described,
                             .expected = "a server that answers requests for a range of bytes",
                             .found = "one that sends whole files",
                             .remedy = "download the file, and read it from a directory"});
            default: break;
        }
        throw error(errc::io,
                    {.file = described,
                     .expected = "the file",
                     .found = "status " + std::to_string(r.status),
                     .remedy = r.status == 429 ? "set https_options::authorization, lower "
                                                 "requests_in_flight, or raise retry_for"
                                               : ""});
    }
    /// The size that the header `Content-Range` has at its end.
    static std::optional<std::uint64_t> total_of(const response& r) {
        auto const text = r.header("content-range");
        auto const slash = text.rfind('/');
        if (slash == text.npos) return {};
        return detail::s3::number_in(text.substr(slash + 1));
    }
    /// What tells one version of a file from another.
    static std::string version_of(const response& r) {
        auto const etag = r.header("etag");
        if (!etag.empty()) return std::string(etag);
        auto const total = total_of(r);
        return std::string(r.header("last-modified")) + " " + (total ? std::to_string(*total) : "");
    }
    error failed(const std::string& why) const {
        return error(errc::io, {.file = described, .expected = "the file", .found = why});
    }

    static constexpr int most_redirections = 8;

    std::shared_ptr<state> s;
    std::string target, described;
    std::uint64_t size = 0;
    std::string version{};
    mutable detail::s3::one_per_process<destination> destinations{std::make_unique<destination>()};
};

/// The path of a URL as it was written: a server may tell `%2F` from `/`.
inline std::string written_path(const detail::s3::url& u) {
    return detail::s3::percent_encoded(u.written_path, "/%:@!$&'()*+,;=");
}

CAIRN_DECL https_store::https_store(const std::string& url, https_options options) {
    auto base = detail::s3::parse_endpoint(url, "an https_store");
    prefix_ = written_path(base);
    if (base.to.scheme == "http" && !detail::s3::is_loopback(base.to.host))
        throw error(errc::invalid_argument,
                    {.expected = "https://…", .found = "http://" + base.to.host + "/…"});
    if (options.least_rate < 1)
        throw error(
            errc::invalid_argument,
            {.expected = "https_options::least_rate of at least 1 byte per second", .found = "0"});
    detail::s3::check_waits(options, "https_options");
    if (!options.ca_file.empty()) options.ca_file = detail::absolute_path(options.ca_file).string();
    s_ = std::make_shared<state>(std::move(base), std::move(options));
}

CAIRN_DECL https_store https_store::at(const std::string& id) const {
    auto there = *this;
    if (id.find("://") == id.npos) {
        if (!id.empty()) there.prefix_ = target(id);
        return there;
    }
    auto const other = detail::s3::parse_endpoint(id, "the id of a checkpoint");
    if (host_of(other.to) != host_of(s_->base.to) || other.to.scheme != s_->base.to.scheme)
        throw error(errc::invalid_argument, {.expected = "a URL of " + host_of(s_->base.to),
                                             .found = "one of " + host_of(other.to)});
    there.prefix_ = written_path(other);
    return there;
}

CAIRN_DECL std::string https_store::target(std::string_view name) const {
    return prefix_ + "/" + detail::s3::percent_encoded(name, "/");
}

CAIRN_DECL std::string https_store::describe(std::string_view name) const {
    auto const place = s_->base.to.scheme + "://" + host_of(s_->base.to) + prefix_;
    return name == "." ? place : place + "/" + std::string(name);
}

CAIRN_DECL std::size_t https_store::requests_in_flight() const noexcept {
    return s_->options.requests_in_flight;
}

CAIRN_DECL https_store::reader https_store::open(std::string_view name) const {
    if (!detail::is_object_name(name)) throw detail::bad_object_name(describe(name));
    auto f = std::make_shared<found>();
    f->s = s_;
    f->target = target(name);
    f->described = describe(name);
    // The first byte tells the size, and whether ranges can be read at all.
    std::byte first{};
    auto const r = f->get(0, 0, std::span(&first, 1));
    if (r.status == 416) return reader(std::move(f));  // an empty file has no first byte
    f->check(r);
    auto const total = found::total_of(r);
    if (!total)
        throw error(errc::unsupported,
                    {.file = f->described,
                     .expected = "an answer that says how long the file is",
                     .found = "Content-Range: " + std::string(r.header("content-range"))});
    f->size = *total;
    f->version = found::version_of(r);
    return reader(std::move(f));
}

CAIRN_DECL object_tag https_store::tag(std::string_view name) const {
    try {
        auto const r = open(name);
        return r.tag();
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::not_found)) throw;
        return {};
    }
}

CAIRN_DECL std::vector<object_info> https_store::list() const {
    throw error(errc::unsupported, {.file = describe("."),
                                    .expected = "a store that can list what it has",
                                    .found = "a web server",
                                    .remedy = "name the file, e.g. model.safetensors"});
}

CAIRN_DECL error https_store::read_only(std::string_view name) const {
    return error(errc::unsupported, {.file = describe(name),
                                     .expected = "a store that can be written",
                                     .found = "a web server, which is read only"});
}

CAIRN_DECL https_store::reader::reader(std::shared_ptr<found> f) : f_(std::move(f)) {}

CAIRN_DECL std::uint64_t https_store::reader::size() const noexcept {
    return f_->size;
}

CAIRN_DECL object_tag https_store::reader::tag() const {
    return {f_->version};
}

CAIRN_DECL void https_store::reader::read(std::uint64_t at, std::span<std::byte> into) const {
    if (!detail::fits_in(at, into.size(), f_->size))
        throw error(errc::corrupt,
                    {.file = f_->described,
                     .expected = std::to_string(into.size()) + " bytes at " + std::to_string(at),
                     .found = "a file of " + std::to_string(f_->size) + " bytes"});
    if (into.empty()) return;
    auto const r = f_->get(at, at + into.size() - 1, into);
    if (r.status == 416)
        throw error(errc::not_found, {.file = f_->described, .found = "it was replaced"});
    f_->check(r);
    if (found::version_of(r) != f_->version)
        throw error(errc::not_found, {.file = f_->described, .found = "it was replaced"});
    if (auto other = detail::s3::other_range(r, at, into.size()))
        throw f_->failed("another range than the one that was asked for: " + *other);
    if (r.received != into.size())
        throw f_->failed(std::to_string(r.received) + " of " + std::to_string(into.size()) +
                         " bytes");
}

}  // namespace cairn

#endif
