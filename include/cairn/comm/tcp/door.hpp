// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_DOOR_HPP
#define CAIRN_COMM_TCP_DOOR_HPP

#include <cairn/comm/tcp/hello.hpp>
#include <cairn/comm/tcp/listener.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace cairn::detail {

/// One connection while its two ends get to know each other.
struct tcp_visitor : std::enable_shared_from_this<tcp_visitor> {
    explicit tcp_visitor(tcp_socket::socket s)
        : socket(std::move(s)), patience(socket.get_executor()) {}

    tcp_socket::socket socket;
    boost::asio::steady_timer patience;
    std::array<std::byte, hello_head_bytes> head{};
    message body{};
    message out{};

    using got = std::function<void(std::exception_ptr)>;

    /// Closes the connection if what comes next takes longer.
    void expire_after(std::chrono::steady_clock::duration d) {
        patience.expires_after(d);
        patience.async_wait([self = shared_from_this()](const auto& ec) {
            if (!ec) self->close();
        });
    }
    void close() {
        boost::system::error_code ignored;
        socket.close(ignored);
        patience.cancel();
    }
    /// Reads one greeting or answer; its body is then in `body`.
    void receive(got done) {
        boost::asio::async_read(
            socket, boost::asio::buffer(head), [self = shared_from_this(), done](auto ec, auto) {
                if (ec) return done(std::make_exception_ptr(boost::system::system_error(ec)));
                try {
                    self->body.resize(decode_hello_head(self->head));
                } catch (...) {
                    return done(std::current_exception());
                }
                boost::asio::async_read(
                    self->socket, boost::asio::buffer(self->body), [self, done](auto e, auto) {
                        self->patience.cancel();
                        done(e ? std::make_exception_ptr(boost::system::system_error(e)) : nullptr);
                    });
            });
    }
    /// `m` replaces what was said before: one at a time.
    void say(message m, got done) {
        out = std::move(m);
        boost::asio::async_write(
            socket, boost::asio::buffer(out), [self = shared_from_this(), done](auto ec, auto) {
                done(ec ? std::make_exception_ptr(boost::system::system_error(ec)) : nullptr);
            });
    }
    std::string where() const {
        boost::system::error_code ec;
        auto const e = socket.remote_endpoint(ec);
        return ec ? "somewhere" : tcp_address{e.address().to_string(), e.port()}.text();
    }
};
using visitor_ptr = std::shared_ptr<tcp_visitor>;

/// Lets connections in and reads their greeting. A stranger's is dropped, at the latest when it has
/// not greeted in ten seconds.
class tcp_door {
public:
    using guest = std::function<void(visitor_ptr, const tcp_hello&)>;

    /// @param secret  Of the guests to let in; may change until the first comes.
    tcp_door(tcp_listener& listener, const std::array<std::uint8_t, 16>& secret, guest f)
        : listener_(listener), secret_(secret), guest_(std::move(f)) {
        accept();
    }
    void close() {
        boost::system::error_code ignored;
        listener_.acceptor().close(ignored);
        for (auto const& v : greeting_) v->close();
    }

private:
    void accept() {
        listener_.acceptor().async_accept([this](auto ec, tcp_socket::socket s) {
            if (!listener_.acceptor().is_open()) return;
            if (!ec) greet(std::make_shared<tcp_visitor>(std::move(s)));
            // No descriptors left, say: those who greet will leave some.
            if (ec == boost::asio::error::no_descriptors) return later();
            accept();
        });
    }
    void later() {
        auto const t = std::make_shared<boost::asio::steady_timer>(
            listener_.acceptor().get_executor(), std::chrono::milliseconds(100));
        t->async_wait([this, t](const auto&) {
            if (listener_.acceptor().is_open()) accept();
        });
    }
    void greet(const visitor_ptr& v) {
        greeting_.insert(v);
        v->expire_after(std::chrono::seconds(10));
        v->receive([this, v](std::exception_ptr e) {
            greeting_.erase(v);
            if (e) return turn_away(v, e);
            try {
                auto const h = decode_hello(v->body);
                if (!same_secret(h.secret, secret_))
                    return refuse(v, tcp_welcome::verdict::not_this_job,
                                  "the secret is another job's");
                guest_(v, h);
            } catch (...) {
                turn_away(v, std::current_exception());
            }
        });
    }
    /// A rank of another version is told so; who speaks another language is not.
    static void turn_away(const visitor_ptr& v, const std::exception_ptr& e) {
        try {
            std::rethrow_exception(e);
        } catch (const error& x) {
            if (x.code() == make_error_code(errc::unsupported))
                return refuse(v, tcp_welcome::verdict::refused, x.what());
        } catch (...) {
        }
        v->close();
    }

public:
    static void refuse(const visitor_ptr& v, tcp_welcome::verdict says, std::string why) {
        v->expire_after(std::chrono::seconds(2));
        v->say(encode(tcp_welcome{says, std::move(why), 0, {}}), [v](auto) { v->close(); });
    }

private:
    tcp_listener& listener_;
    const std::array<std::uint8_t, 16>& secret_;
    guest guest_;
    std::set<visitor_ptr> greeting_{};
};

}  // namespace cairn::detail

#endif
