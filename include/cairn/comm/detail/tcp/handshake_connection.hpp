// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_HANDSHAKE_CONNECTION_HPP
#define CAIRN_COMM_DETAIL_TCP_HANDSHAKE_CONNECTION_HPP

#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/detail/blocked_signals.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

/// A socket without an executor.
class owned_socket {
public:
    owned_socket() = default;
    owned_socket(int descriptor, tcp_socket family)
        : descriptor_(descriptor), family_(family), kept_(descriptor) {}
    owned_socket(owned_socket&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)), family_(other.family_),
          kept_(std::move(other.kept_)) {}
    owned_socket& operator=(owned_socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        std::swap(family_, other.family_);
        std::swap(kept_, other.kept_);
        return *this;
    }
    ~owned_socket() {
        kept_.end();
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    template <class Context>
    tcp_socket::socket on(Context& ex) && {
        kept_.end();
        return tcp_socket::socket(ex, family_, std::exchange(descriptor_, -1));
    }

private:
    int descriptor_ = -1;
    tcp_socket family_ = tcp_socket::v4();
    kept_from_children kept_{};
};

/// A connection during its handshake. Used on one strand.
///
/// Reads no more than one message: bytes behind the last one belong to the next user of the socket.
class handshake_connection : public std::enable_shared_from_this<handshake_connection> {
public:
    struct events {
        std::function<void(int)> resolved{}, connected{}, sent{}, closed{};
        std::function<void(int, const boost::system::error_code&)> failed{};
        std::function<void(int, std::span<const std::byte>)> message{};
        std::function<void(int, const error&)> misread{};
        std::function<void(int, const std::string&)> lost{};
        std::function<void(int, int)> kept{};
    };

    handshake_connection(tcp_socket::socket s, events e)
        : socket_(std::move(s)),
          here_only_(socket_.is_open() ? keep_from_children(socket_.native_handle())
                                       : kept_from_children()),
          resolver_(socket_.get_executor()), events_(std::move(e)) {
        if (socket_.is_open()) do_not_delay();
    }

    int number = -1;

    int kept_for() const noexcept { return kept_ ? rank_ : -1; }
    owned_socket release() {
        boost::system::error_code ec;
        auto const local = socket_.local_endpoint(ec);
        here_only_.end();
        int const d = socket_.release(ec);
        return ec ? owned_socket() : owned_socket(d, local.protocol());
    }
    void close() {
        events_ = {};
        ended_ = true;
        boost::system::error_code ignored;
        resolver_.cancel();
        here_only_.end();
        socket_.close(ignored);
    }

    void connect(const tcp_address& to) {
        auto const self = shared_from_this();
        boost::system::error_code ec;
        auto const address = boost::asio::ip::make_address(to.host, ec);
        if (!ec) {
            tcp_socket::endpoint const at(address, to.port);
            socket_.open(at.protocol(), ec);
            if (ec)
                return boost::asio::post(socket_.get_executor(),
                                         [self, ec] { self->connected(ec); });
            here_only_ = keep_from_children(socket_.native_handle());
            events_.resolved(number);
            return socket_.async_connect(at, [self](const error_code& e) { self->connected(e); });
        }
        blocked_signals const blocked;  // for the thread that looks up names
        resolver_.async_resolve(
            to.host, std::to_string(to.port),
            [self](const error_code& e, const tcp_socket::resolver::results_type& found) {
                if (e || self->ended_) return self->connected(e);
                auto const on_resolved = self->events_.resolved;
                on_resolved(self->number);
                if (self->ended_) return;
                boost::asio::async_connect(
                    self->socket_, found,
                    [self](const error_code& e2, const tcp_socket::endpoint&) {
                        if (!e2)
                            self->here_only_ = keep_from_children(self->socket_.native_handle());
                        self->connected(e2);
                    });
            });
    }
    /// Waits for the next message.
    void receive() {
        socket_.async_wait(tcp_socket::socket::wait_read,
                           [self = shared_from_this()](const error_code& ec) {
                               if (self->ended_) return;
                               if (ec) return self->lose(ec);
                               if (self->rank_ < 0 && !self->finishing_) self->read();
                           });
    }
    void send(message m) {
        if (ended_) return;
        out_.push_back(std::move(m));
        if (out_.size() == 1) write();
    }
    /// Closes the connection once everything was sent.
    void finish() {
        finishing_ = true;
        if (out_.empty()) settle();
    }
    /// Releases the socket once everything was sent.
    void keep(int rank) {
        rank_ = rank;
        if (out_.empty()) settle();
    }

private:
    /// What tells of a failure must not wait until a heartbeat is acknowledged: by then the
    /// socket is closed, and with unread bytes in it that drops what was not sent.
    void do_not_delay() {
        boost::system::error_code ignored;
        socket_.set_option(tcp_socket::no_delay(true), ignored);
    }
    void connected(const error_code& ec) {
        if (ended_) return;
        auto const e = events_;
        if (ec) {
            close();
            return e.failed(number, ec);
        }
        do_not_delay();
        receive();
        e.connected(number);
    }
    void read() {
        boost::asio::async_read(socket_, boost::asio::buffer(head_),
                                [self = shared_from_this()](const error_code& ec, std::size_t) {
                                    if (self->ended_) return;
                                    if (ec) return self->lose(ec);
                                    self->read_body();
                                });
    }
    void read_body() {
        try {
            body_.resize(decode_handshake_head(head_));
        } catch (const error& e) {
            auto const on_misread = events_.misread;
            return on_misread(number, e);
        }
        boost::asio::async_read(socket_, boost::asio::buffer(body_),
                                [self = shared_from_this()](const error_code& ec, std::size_t) {
                                    if (self->ended_) return;
                                    if (ec) return self->lose(ec);
                                    self->deliver();
                                });
    }
    void deliver() {
        auto const body = std::move(body_);
        auto const on_message = events_.message;
        on_message(number, body);
        if (!ended_ && rank_ < 0 && !finishing_) receive();
    }
    void write() {
        boost::asio::async_write(socket_, boost::asio::buffer(out_.front()),
                                 [self = shared_from_this()](const error_code& ec, std::size_t) {
                                     if (self->ended_) return;
                                     // The next user of the socket reads why it was closed.
                                     if (ec && !self->kept_) return self->lose(ec);
                                     self->written();
                                 });
    }
    void written() {
        out_.pop_front();
        if (!out_.empty()) write();
        auto const on_sent = events_.sent;
        on_sent(number);
        if (!ended_ && out_.empty()) settle();
    }
    void settle() {
        auto const e = events_;
        if (finishing_) {
            close();
            return e.closed(number);
        }
        if (rank_ < 0 || std::exchange(kept_, true)) return;
        e.kept(number, rank_);
    }
    void lose(const error_code& ec) {
        auto const e = events_;
        close();
        e.lost(number, ec == boost::asio::error::eof ? "it closed the connection" : ec.message());
    }

    tcp_socket::socket socket_;
    kept_from_children here_only_{};
    tcp_socket::resolver resolver_;
    events events_;
    std::array<std::byte, handshake_head_bytes> head_{};
    message body_{};
    std::deque<message> out_{};
    int rank_ = -1;
    bool kept_ = false;
    bool finishing_ = false;
    bool ended_ = false;
};

}  // namespace cairn::detail

#endif
