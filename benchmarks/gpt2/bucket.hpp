// SPDX-License-Identifier: Apache-2.0
// Places in a bucket.
#ifndef CAIRN_BENCHMARKS_GPT2_BUCKET_HPP
#define CAIRN_BENCHMARKS_GPT2_BUCKET_HPP

#include "arguments.hpp"
#include "bare.hpp"
#include "groups.hpp"
#include "state.hpp"
#ifdef CAIRN_BENCHMARKS_S3
#include "support/s3/signed_requests.hpp"
#endif

#include <cairn/object_store/any_store.hpp>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef CAIRN_BENCHMARKS_S3
#include <cairn/object_store/s3.hpp>

#include <curl/curl.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#endif

namespace gpt2 {

#ifdef CAIRN_BENCHMARKS_S3

/// The store that `cairn::open_store` makes of the URL, and how many requests it has sent.
class bucket {
public:
    explicit bucket(const std::string& url, bool unsigned_payloads)
        : s3_(url, options(unsigned_payloads)), store_(s3_) {}
    cairn::any_store& store() noexcept { return store_; }
    std::uint64_t requests() const { return s3_.statistics().requests; }

private:
    static cairn::s3_options options(bool unsigned_payloads) {
        cairn::s3_options o;
        if (unsigned_payloads) o.signed_payloads = false;
        return o;
    }

    cairn::s3_store s3_;
    cairn::any_store store_;
};

/// The limit of saves to a bucket and loads from it: as many requests at once, of the same sizes
/// and with the same checksums and signatures, and nothing else.
namespace bare {

namespace s3 = signed_requests;

/// One connection, and the requests that are sent over it.
class connection {
public:
    connection(const s3::store_settings& to, std::atomic<std::uint64_t>& requests)
        : to_(to), requests_(requests), curl_(::curl_easy_init()) {
        if (!curl_) throw std::bad_alloc();
    }

    struct answer {
        long status = 0;
        std::string body{}, etag{};
        std::uint64_t length = 0;
    };
    /// What may pass is sent again at once.
    /// @param into  Where the body of a range goes.
    answer send(const s3::request& r, const pieces& into = {}) {
        answer a;
        for (int tries = 0; tries < 100; ++tries) {
            a = once(r, into);
            if (a.status >= 200 && a.status < 300) return a;
            if (a.status != 0 && a.status < 500) break;
        }
        throw std::runtime_error(r.method + " " + r.path + ": status " + std::to_string(a.status) +
                                 " " + a.body);
    }
    s3::request about(const char* method, const std::string& key) const {
        s3::request r;
        r.method = method;
        r.to = to_.host(to_.options.region);
        r.path = to_.path(key);
        return r;
    }

private:
    struct transfer {
        const s3::request& r;
        const pieces& into;
        answer& a;
        const int& fd;
        std::size_t given = 0, piece = 0, taken = 0;
    };
    static std::size_t give(char* to, std::size_t, std::size_t n, void* self) {
        auto& t = *static_cast<transfer*>(self);
        n = std::min(n, t.r.body.size() - t.given);
        if (n != 0) std::memcpy(to, t.r.body.data() + t.given, n);
        t.given += n;
        return n;
    }
    static std::size_t take(char* data, std::size_t, std::size_t n, void* self) {
        auto& t = *static_cast<transfer*>(self);
        if (t.into.empty()) {
            t.a.body.append(data, n);
            return n;
        }
        checksums += libdeflate_crc32(0, data, n);
        for (std::size_t done = 0; done < n;) {
            if (t.piece == t.into.size()) return 0;
            auto const to = t.into[t.piece].subspan(t.taken);
            auto const some = std::min(to.size(), n - done);
            std::memcpy(to.data(), data + done, some);
            done += some;
            t.taken = some == to.size() ? 0 : t.taken + some;
            t.piece += some == to.size();
        }
        return n;
    }
    static int opened(void* self, ::curl_socket_t fd, ::curlsocktype) {
        static_cast<connection*>(self)->fd_ = fd;
        return CURL_SOCKOPT_OK;
    }
    static std::size_t header(char* data, std::size_t, std::size_t n, void* self) {
        std::string_view line(data, n);
        auto& t = *static_cast<transfer*>(self);
        auto& a = t.a;
        // A small body does not come before its head is acknowledged, if the server does not send
        // both at once.
        int const on = 1;
        if (line == "\r\n") (void)::setsockopt(t.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
        auto const value = [&](std::string_view name) {
            if (line.size() <= name.size() ||
                ::strncasecmp(line.data(), name.data(), name.size()) != 0)
                return std::string();
            return std::string(
                line.substr(name.size(), line.find_last_not_of("\r\n") + 1 - name.size()));
        };
        if (auto v = value("etag: "); !v.empty()) a.etag = std::move(v);
        if (auto v = value("content-length: "); !v.empty())
            a.length = std::strtoull(v.c_str(), nullptr, 10);
        return n;
    }
    answer once(const s3::request& r, const pieces& into) {
        ++requests_;
        auto* const c = curl_.get();
        ::curl_easy_reset(c);
        answer a;
        transfer t{r, into, a, fd_};
        auto const query = s3::encoded_query(r);
        auto const url = r.to.scheme + "://" + s3::host_of(r.to) + s3::encoded_path(r) +
                         (query.empty() ? "" : "?" + query);
        ::curl_slist* headers = ::curl_slist_append(nullptr, "Expect:");
        for (auto const& [name, v] :
             s3::signed_headers(r, *to_.options.credentials, to_.options.region,
                                std::chrono::system_clock::now(), to_.signs))
            headers = ::curl_slist_append(headers, (name + ": " + v).c_str());
        ::curl_easy_setopt(c, CURLOPT_URL, url.c_str());
        ::curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
        ::curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
        ::curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 512L << 10);
        ::curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &take);
        ::curl_easy_setopt(c, CURLOPT_WRITEDATA, &t);
        ::curl_easy_setopt(c, CURLOPT_SOCKOPTFUNCTION, &opened);
        ::curl_easy_setopt(c, CURLOPT_SOCKOPTDATA, this);
        ::curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, &header);
        ::curl_easy_setopt(c, CURLOPT_HEADERDATA, &t);
        if (r.method == "HEAD") ::curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
        if (r.method == "PUT" || r.method == "POST") {
            ::curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
            ::curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r.method.c_str());
            ::curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
            ::curl_easy_setopt(c, CURLOPT_READFUNCTION, &give);
            ::curl_easy_setopt(c, CURLOPT_READDATA, &t);
            ::curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE,
                               static_cast<::curl_off_t>(r.body.size()));
        }
        auto const e = ::curl_easy_perform(c);
        ::curl_slist_free_all(headers);
        if (e == CURLE_OK) ::curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a.status);
        return a;
    }

    struct freed {
        void operator()(::CURL* c) const { ::curl_easy_cleanup(c); }
    };
    const s3::store_settings& to_;
    std::atomic<std::uint64_t>& requests_;
    std::unique_ptr<::CURL, freed> curl_;
    int fd_ = -1;
};

/// The loop, as one rank runs it.
class bucket_loop {
public:
    explicit bucket_loop(const std::string& url) : place_(s3::parse_s3_uri(url)) {
        cairn::s3_options o;
        o.bucket = place_.bucket;
        auto const variable = [](const char* name) {
            auto const* v = std::getenv(name);
            if (v == nullptr) throw std::runtime_error(std::string("set ") + name);
            return std::string(v);
        };
        o.credentials.emplace();
        o.credentials->access_key = variable("AWS_ACCESS_KEY_ID");
        o.credentials->secret_key = variable("AWS_SECRET_ACCESS_KEY");
        to_ = s3::store_settings::of(std::move(o));
    }
    std::uint64_t requests() const { return requests_; }
    /// @param url  In the same bucket.
    void go_to(const std::string& url) { place_ = s3::parse_s3_uri(url); }

    template <class Comm>
    void save(state& s, Comm& ranks) {
        auto const all = s.memory();
        auto const bytes = size_of(all), part = to_.part_size(bytes);
        auto const key = key_of(ranks.rank());
        connection first(to_, requests_);
        auto begin = first.about("POST", key);
        begin.query = {{"uploads", ""}};
        begin.headers = {{"x-amz-checksum-algorithm", "CRC32"}};
        auto const begun = first.send(begin).body;
        auto const from = begun.find("<UploadId>") + 10;
        auto const id = begun.substr(from, begun.find("</UploadId>") - from);
        std::vector<std::string> tags(static_cast<std::size_t>((bytes + part - 1) / part));
        in_flight(tags.size(), [&](connection& c, std::size_t n, std::vector<std::byte>& memory) {
            memory.resize(static_cast<std::size_t>(part));
            std::size_t filled = 0;
            for (auto const& p :
                 cut(all, n * part, std::min(bytes, (n + 1) * part), memory.size())) {
                std::memcpy(memory.data() + filled, p.data(), p.size());
                filled += p.size();
            }
            auto r = c.about("PUT", key);
            r.query = {{"partNumber", std::to_string(n + 1)}, {"uploadId", id}};
            r.body = std::span(memory).first(filled);
            r.headers = {{"x-amz-checksum-crc32", s3::crc32_text(r.body)}};
            tags[n] = c.send(r).etag;
        });
        std::string xml = "<CompleteMultipartUpload>";
        for (std::size_t n = 0; n < tags.size(); ++n)
            xml += "<Part><PartNumber>" + std::to_string(n + 1) + "</PartNumber><ETag>" + tags[n] +
                   "</ETag></Part>";
        xml += "</CompleteMultipartUpload>";
        auto end = first.about("POST", key);
        end.query = {{"uploadId", id}};
        end.body = std::as_bytes(std::span(xml));
        first.send(end);
        wait_for_all(ranks);
    }

    template <class Comm>
    void load(state& s, Comm& ranks) {
        auto const all = s.memory();
        auto const key = key_of(ranks.rank());
        // So that it has about as many requests as a load of cairn's.
        constexpr std::uint64_t range = std::uint64_t{6} << 20;
        connection first(to_, requests_);
        auto const bytes = std::min(first.send(first.about("HEAD", key)).length, size_of(all));
        in_flight(static_cast<std::size_t>((bytes + range - 1) / range),
                  [&](connection& c, std::size_t n, std::vector<std::byte>&) {
                      auto const at = n * range, until = std::min(bytes, at + range);
                      auto r = c.about("GET", key);
                      r.headers = {{"range", "bytes=" + std::to_string(at) + "-" +
                                                 std::to_string(until - 1)}};
                      c.send(r, cut(all, at, until, range));
                  });
        wait_for_all(ranks);
    }

private:
    std::string key_of(int rank) const {
        char name[16];
        std::snprintf(name, sizeof name, "/%05d", rank);
        return place_.prefix + name;
    }
    /// Calls `f(connection, n, memory)` for each n, as many at once as the store has requests.
    void in_flight(
        std::size_t count,
        const std::function<void(connection&, std::size_t, std::vector<std::byte>&)>& f) {
        std::atomic<std::size_t> next{0};
        auto const threads = std::min(count, to_.options.requests_in_flight);
        on_threads(static_cast<int>(threads), [&](int) {
            connection c(to_, requests_);
            std::vector<std::byte> memory;
            for (std::size_t n; (n = next++) < count;) f(c, n, memory);
        });
    }

    s3::bucket_and_prefix place_;
    s3::store_settings to_{};
    std::atomic<std::uint64_t> requests_{0};
};

}  // namespace bare

#else

class bucket {
public:
    explicit bucket(const std::string& url, bool = false) {
        throw std::runtime_error(url + ": built without libcurl and OpenSSL");
    }
    cairn::any_store& store() noexcept { std::abort(); }
    std::uint64_t requests() const { return 0; }
};
namespace bare {
class bucket_loop : public bucket {
public:
    using bucket::bucket;
    void go_to(const std::string&) {}
    template <class Comm>
    void save(state&, Comm&) {}
    template <class Comm>
    void load(state&, Comm&) {}
};
}  // namespace bare

#endif

}  // namespace gpt2

#endif
