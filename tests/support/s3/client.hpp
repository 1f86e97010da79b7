// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_CLIENT_HPP
#define CAIRN_TEST_SUPPORT_S3_CLIENT_HPP

#include "support/s3/server.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

/// What a server has sent.
struct reply {
    int status = 0;  ///< 0: nothing that can be understood.
    fields headers{};
    std::string body{};  ///< What arrived of it.
    boost::system::error_code error{};

    std::string header(std::string_view name) const {
        for (auto const& [n, v] : headers)
            if (n == name) return v;
        return {};
    }
    /// The text of an element of the body that occurs once.
    std::string element(const std::string& name) const {
        auto const found = xml_elements(body, name);
        return found.size() == 1 ? xml_unescaped(found.front()) : std::string();
    }
    std::string code() const { return element("Code"); }
};

/// One connection that sends bytes as it is told, to test the server with.
class raw_client {
public:
    explicit raw_client(unsigned short port) {
        socket_.connect({boost::asio::ip::address_v4::loopback(), port});
    }
    void write(std::string_view bytes) {
        boost::system::error_code e;
        boost::asio::write(socket_, boost::asio::buffer(bytes.data(), bytes.size()), e);
    }
    reply read(bool of_head = false) {
        boost::beast::http::response_parser<boost::beast::http::string_body> p;
        p.skip(of_head);
        p.body_limit(boost::none);
        reply r;
        boost::beast::http::read(socket_, in_, p, r.error);
        if (!p.is_header_done()) return r;
        r.status = static_cast<int>(p.get().result_int());
        for (auto const& f : p.get())
            r.headers.emplace_back(lower({f.name_string().data(), f.name_string().size()}),
                                   std::string(f.value()));
        r.body = p.get().body();
        return r;
    }
    /// @param target  As it is sent.
    reply ask(const std::string& method, const std::string& target, const fields& headers = {},
              std::string_view body = {}) {
        write(text(method, target, headers, body));
        return read(method == "HEAD");
    }
    static std::string text(const std::string& method, const std::string& target,
                            const fields& headers = {}, std::string_view body = {}) {
        std::string t = method + " " + target + " HTTP/1.1\r\n";
        bool host = false;
        for (auto const& [n, v] : headers) {
            t += n + ": " + v + "\r\n";
            host = host || lower(n) == "host";
        }
        if (!host) t += "Host: 127.0.0.1\r\n";
        if (!body.empty() || method == "PUT")
            t += "Content-Length: " + std::to_string(body.size()) + "\r\n";
        return t + "\r\n" + std::string(body);
    }

private:
    boost::asio::io_context io_{};
    boost::asio::ip::tcp::socket socket_{io_};
    boost::beast::flat_buffer in_{};
};

/// One request on a connection of its own.
inline reply ask(server& s, const std::string& method, const std::string& target,
                 const fields& headers = {}, std::string_view body = {}) {
    return raw_client(s.port()).ask(method, target, headers, body);
}

}  // namespace s3_server

#endif
