// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_CONNECTION_HPP
#define CAIRN_TEST_SUPPORT_S3_CONNECTION_HPP

#include "support/s3/shared.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

/// Serves the requests of one connection, one after the other, in the thread that calls `run`.
class connection {
public:
    using socket = boost::asio::ip::tcp::socket;
    using header_parser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

    /// How a connection ends.
    enum class end { in_order, reset };

    connection(shared& s, socket& to, std::string endpoint)
        : shared_(s), socket_(to), endpoint_(std::move(endpoint)) {}

    end run() {
        for (;;) {
            header_parser head;
            head.header_limit(64 << 10);
            head.body_limit(boost::none);
            boost::beast::error_code e;
            boost::beast::http::read_header(socket_, in_, head, e);
            if (is_malformed(e)) {
                auto a = error_answer(400, "BadRequest", e.message());
                a.close = true;
                send(a, false, {});
                linger();
            }
            if (e) return end::in_order;
            if (auto const ended = serve(head)) return *ended;
        }
    }

private:
    static bool is_malformed(const boost::beast::error_code& e) {
        using error = boost::beast::http::error;
        return e && e != error::end_of_stream && e != error::partial_message &&
               e.category() == make_error_code(error::end_of_stream).category();
    }
    /// Empty if the connection goes on.
    std::optional<end> serve(const header_parser& head) {
        request r = request_of(head);
        auto const fault = shared_.begin(r);
        now_ = {r.number, 0, 0};
        auto const ended = serve(head, r, fault);
        over();
        if (ended == end::in_order) linger();
        return ended;
    }
    /// Before the client can know: it may ask for the log at once.
    void over() {
        if (now_) shared_.end(now_->number, now_->body_size, now_->status);
        now_.reset();
    }

    std::optional<end> serve(const header_parser& head, request& r, const std::optional<fault>& f) {
        using way = fault::way;
        auto const is = [&](way w) { return f && f->what == w; };
        if (is(way::early_reset)) return end::reset;
        bool const expects = lower(r.header("expect")) == "100-continue";
        if (is(way::early_answer) || (is(way::answer) && !f->has_effect() && expects))
            return send_last(answer_of(*f, r), r);
        if (auto no = refused_framing(head, r)) return send_last(std::move(*no), r);
        if (expects && !write("HTTP/1.1 100 Continue\r\n\r\n")) return end::in_order;
        if (!read_body(head, r)) return end::in_order;

        if (is(way::late)) {
            await_end();
            if (!shared_.wait(f->stalls)) (void)shared_.perform(r, 0);
            return end::in_order;
        }
        if (is(way::stall) && !f->has_effect() && shared_.wait(f->stalls)) return end::reset;
        if (auto const d = shared_.how().delay; d.count() != 0 && shared_.wait(d))
            return end::reset;
        answer a;
        if (!f || f->has_effect() || is(way::stall)) {
            auto const asked = is(way::no_range)      ? without_range(r)
                               : is(way::other_range) ? from_the_beginning(r)
                                                      : r;
            a = shared_.perform(asked, f ? f->age : 0);
        }
        if (f && f->then) shared_.with_world(f->then);
        if (f) {
            if (is(way::reset)) return end::reset;
            if (is(way::close)) return end::in_order;
            if (is(way::stall) && f->has_effect() && shared_.wait(f->stalls)) return end::reset;
            if (is(way::answer)) a = answer_of(*f, r);
            if (is(way::error_in_body))
                a = xml_answer(200, error_document(f->code, "injected into a body"));
            if (is(way::wrong_byte)) spoil(a);
            if (is(way::unsaid_range))
                std::erase_if(a.headers, [](auto const& h) { return h.first == "Content-Range"; });
            if (is(way::wrong_etag)) change_etag(a);
        }
        a.close = a.close || is(way::unsaid_end) || !head.keep_alive();
        if (!send(a, r.method == "HEAD", f)) return end::in_order;
        if (is(way::reset_in_body)) return end::reset;
        if (a.close || is(way::short_body)) return end::in_order;
        return {};
    }
    std::optional<end> send_last(answer a, const request& r) {
        a.close = true;
        send(a, r.method == "HEAD", {});
        return end::in_order;
    }

    static request request_of(const header_parser& head) {
        auto const& m = head.get();
        request r;
        r.method = std::string(m.method_string());
        r.target = std::string(m.target());
        for (auto const& f : m)
            r.headers.emplace_back(lower({f.name_string().data(), f.name_string().size()}),
                                   std::string(f.value()));
        take_apart(r);
        return r;
    }
    static request without_range(request r) {
        std::erase_if(r.headers, [](auto const& h) { return h.first == "range"; });
        return r;
    }
    static request from_the_beginning(request r) {
        for (auto& [name, value] : r.headers) {
            if (name != "range") continue;
            auto const dash = value.find('-');
            auto const first = std::stoull(value.substr(6, dash - 6));
            value = "bytes=0-" + std::to_string(std::stoull(value.substr(dash + 1)) - first);
        }
        return r;
    }
    /// Only bodies of a length that is known beforehand are understood.
    static std::optional<answer> refused_framing(const header_parser& head, const request& r) {
        if (head.chunked() || r.header("content-encoding") == "aws-chunked")
            return error_answer(501, "NotImplemented",
                                "A header you provided implies functionality that is not "
                                "implemented");
        if (!head.content_length() && r.method == "PUT")
            return error_answer(411, "MissingContentLength",
                                "You must provide the Content-Length HTTP header.");
        if (head.content_length().value_or(0) > std::uint64_t{5} << 30)
            return error_answer(400, "EntityTooLarge",
                                "Your proposed upload exceeds the maximum allowed size");
        return {};
    }
    answer answer_of(const fault& f, const request& r) const {
        auto a = error_answer(f.status, f.code, f.message,
                              f.status / 100 == 3 ? xml_element("Endpoint", endpoint_) : "");
        a.headers.insert(a.headers.end(), f.headers.begin(), f.headers.end());
        if (f.status == 307) a.headers.emplace_back("Location", endpoint_ + r.target);
        a.is_page = f.code.empty();
        if (a.is_page) a.set_body(std::make_shared<std::string>("<html>a proxy</html>"));
        if (!f.body.empty()) a.set_body(std::make_shared<std::string>(f.body));
        return a;
    }
    static void spoil(answer& a) {
        if (a.count == 0) return;
        auto other = std::make_shared<std::string>(a.content());
        auto& byte = (*other)[other->size() / 2];
        byte = static_cast<char>(byte ^ 1);
        a.set_body(std::move(other));
    }
    static void change_etag(answer& a) {
        static const std::string other = "00000000000000000000000000000000";
        for (auto& [name, value] : a.headers)
            if (name == "ETag") value = '"' + other + '"';
        auto const tags = xml_elements(a.content(), "ETag");
        if (tags.empty() || !a.content().starts_with("<?xml")) return;
        auto changed = std::make_shared<std::string>(a.content());
        changed->replace(changed->find(tags.front()), tags.front().size(), other);
        a.set_body(std::move(changed));
    }

    bool read_body(const header_parser& head, request& r) {
        auto const size = static_cast<std::size_t>(head.content_length().value_or(0));
        if (size == 0) return true;
        auto body = std::make_shared<std::string>(size, '\0');
        auto const here = std::min(size, in_.size());
        std::memcpy(body->data(), in_.data().data(), here);
        in_.consume(here);
        for (std::size_t at = here; at < size;) {
            auto const n = std::min(size - at, slice());
            boost::system::error_code e;
            boost::asio::read(socket_, boost::asio::buffer(body->data() + at, n), e);
            if (e || !pass(n)) return false;
            at += n;
        }
        r.body = std::move(body);
        if (now_) now_->body_size = size;
        return true;
    }

    bool send(const answer& a, bool only_head, const std::optional<fault>& f) {
        if (now_) now_->status = a.status;
        bool const garbled = f && f->what == fault::way::garbled;
        auto head = (garbled ? "0\r\n\r\nHTTP/1.1 " : "HTTP/1.1 ") + std::to_string(a.status) + " ";
        head += boost::beast::http::obsolete_reason(
            boost::beast::http::int_to_status(static_cast<unsigned>(a.status)));
        head += "\r\nServer: tests\r\n";
        if (!a.is_page)
            head += "x-amz-request-id: 4442587F" + std::to_string(shared_.log().size()) + "\r\n";
        for (auto const& [n, v] : a.headers) head += n + ": " + v + "\r\n";
        bool const unsaid = f && f->what == fault::way::unsaid_end;
        if (a.status != 204 && a.status != 304 && !unsaid)
            head += "Content-Length: " + std::to_string(a.count) + "\r\n";
        head += a.close ? "Connection: close\r\n\r\n" : "\r\n";
        auto body = only_head ? std::string_view() : a.content();
        bool const cut = f && (f->what == fault::way::reset_in_body ||
                               f->what == fault::way::short_body || unsaid);
        if (cut) body = body.substr(0, body.size() / 2);
        if (f && f->what == fault::way::drip) return drip(head, body, f->stalls);
        auto first = body.substr(0, std::min(body.size(), slice()));
        if (first.size() == body.size()) over();
        boost::system::error_code e;
        std::array<boost::asio::const_buffer, 2> const both{
            boost::asio::buffer(head), boost::asio::buffer(first.data(), first.size())};
        boost::asio::write(socket_, both, e);
        while (!e && pass(first.size())) {
            body.remove_prefix(first.size());
            if (body.empty()) return true;
            first = body.substr(0, std::min(body.size(), slice()));
            if (first.size() == body.size()) over();
            boost::asio::write(socket_, boost::asio::buffer(first.data(), first.size()), e);
        }
        return false;
    }
    bool drip(const std::string& head, std::string_view body, std::chrono::nanoseconds pause) {
        if (!write(head)) return false;
        for (; !body.empty(); body.remove_prefix(1))
            if (shared_.wait(pause) || !write(body.substr(0, 1))) return false;
        return true;
    }
    bool write(std::string_view text) {
        boost::system::error_code e;
        boost::asio::write(socket_, boost::asio::buffer(text.data(), text.size()), e);
        return !e;
    }

    /// How much is moved at once.
    std::size_t slice() {
        auto const limit = shared_.how().bytes_per_second;
        return limit == 0 ? std::size_t{4} << 20 : std::max<std::size_t>(limit / 100, 1024);
    }
    /// Waits as long as so many bytes take. @return Whether the server goes on.
    bool pass(std::size_t n) {
        auto const limit = shared_.how().bytes_per_second;
        if (limit == 0 || n == 0) return true;
        std::chrono::duration<double> const t(static_cast<double>(n) / static_cast<double>(limit));
        return !shared_.wait(std::chrono::duration_cast<std::chrono::nanoseconds>(t));
    }

    /// Lets the peer read what was sent: closing with something unread would reset the connection.
    void linger() {
        boost::system::error_code e;
        socket_.shutdown(socket::shutdown_send, e);
        await_end();
    }
    /// Until the peer closes the connection.
    void await_end() {
        boost::system::error_code e;
        char rest[4096];
        while (!e) socket_.read_some(boost::asio::buffer(rest), e);
    }

    /// What is served.
    struct served {
        std::size_t number, body_size;
        int status;
    };

    shared& shared_;
    socket& socket_;
    std::optional<served> now_{};
    std::string endpoint_;
    boost::beast::flat_buffer in_{};
};

}  // namespace s3_server

#endif
