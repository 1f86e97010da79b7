// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_LINK_HPP
#define CAIRN_COMM_DETAIL_TCP_LINK_HPP

#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/comm/detail/tree/frame.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A connection to a neighbour in the tree, which carries frames in both directions. Runs entirely
/// on the engine's thread.
class tcp_link : public std::enable_shared_from_this<tcp_link> {
public:
    struct events {
        std::function<void()> heard;            ///< Something was received.
        std::function<void()> moved;            ///< A part of a long frame was sent or received.
        std::function<void(tree_frame)> frame;  ///< A frame is complete.
        std::function<void(const std::string&)> lost;  ///< Once: nothing more will be received.
    };

    explicit tcp_link(tcp_socket::socket s)
        : socket_(std::move(s)), kept_(keep_from_children(socket_.native_handle())) {}

    void start(events e) {
        events_ = std::move(e);
        read_head();
    }
    void send(std::shared_ptr<tree_frame> f) {
        if (ended_ || finishing_) return;  // the other side is told by the end of the connection
        queue_.push_back(std::move(f));
        if (queue_.size() == 1) write_next();
    }
    /// Shuts down this side once everything was sent, and waits for the other side to do so.
    void finish() {
        finishing_ = true;
        if (queue_.empty()) say_end();
    }
    /// Whether both sides have ended.
    bool over() const noexcept { return ended_; }
    void close() {
        ended_ = true;
        events_ = {};
        boost::system::error_code ignored;
        kept_.end();
        socket_.close(ignored);
    }

private:
    template <class F>
    auto guarded(F f) {
        return [self = shared_from_this(), f](const boost::system::error_code& ec, std::size_t n) {
            if (self->ended_) return;
            if (ec) return self->lose(ec);
            try {
                self->events_.heard();
                f(n);
            } catch (const std::bad_alloc&) {
                self->lose("no memory for its message");
            } catch (const std::exception& e) {
                self->lose(e.what());
            }
        };
    }
    void write_next() {
        auto const& f = *queue_.front();
        head_out_ = encode_frame_head(f);
        std::vector<boost::asio::const_buffer> buffers{boost::asio::buffer(head_out_)};
        for (auto const& e : f.entries) buffers.push_back(boost::asio::buffer(*e.bytes));
        auto const all = boost::asio::buffer_size(buffers);
        auto const at_a_time = [self = shared_from_this(), all](const auto& ec, std::size_t n) {
            if (n > 0 && n < all && self->events_.moved) self->events_.moved();
            return ec ? std::size_t{0} : std::size_t{1} << 20;
        };
        boost::asio::async_write(socket_, std::move(buffers), at_a_time,
                                 [self = shared_from_this()](const auto& ec, std::size_t) {
                                     if (ec) return self->lose(ec);
                                     self->queue_.pop_front();
                                     if (!self->queue_.empty()) return self->write_next();
                                     if (self->finishing_) self->say_end();
                                 });
    }
    void say_end() {
        boost::system::error_code ignored;
        socket_.shutdown(tcp_socket::socket::shutdown_send, ignored);
    }

    void read_head() {
        boost::asio::async_read(socket_, boost::asio::buffer(head_in_),
                                guarded([this](std::size_t) {
                                    head_ = decode_frame_head(head_in_);
                                    read_table();
                                }));
    }
    void read_table() {
        auto const n = head_.table_bytes();
        if (n == 0) return deliver();
        table_.resize(n);
        boost::asio::async_read(socket_, boost::asio::buffer(table_), guarded([this](std::size_t) {
                                    lengths_ = decode_frame_table(head_, table_);
                                    read_entry(0);
                                }));
    }
    void read_entry(std::size_t i) {
        for (; i < lengths_.size() && lengths_[i] == 0; ++i)
            head_.frame.entries[i].bytes = std::make_shared<message>();
        if (i == lengths_.size()) return deliver();
        part_ = std::make_shared<message>();
        read_more(i, 0);
    }
    /// Memory grows with the bytes received, not with the size announced.
    void read_more(std::size_t i, std::size_t have) {
        constexpr std::uint64_t first = std::uint64_t{1} << 20;
        auto const whole = lengths_[i];
        if (have == part_->size())
            part_->resize(static_cast<std::size_t>(
                std::min<std::uint64_t>(whole, std::max<std::uint64_t>(first, 2 * have))));
        socket_.async_read_some(boost::asio::buffer(part_->data() + have, part_->size() - have),
                                guarded([this, i, have](std::size_t n) {
                                    if (have + n != lengths_[i]) {
                                        events_.moved();
                                        return read_more(i, have + n);
                                    }
                                    head_.frame.entries[i].bytes = std::move(part_);
                                    read_entry(i + 1);
                                }));
    }
    void deliver() {
        events_.frame(std::move(head_.frame));
        if (!ended_) read_head();
    }

    void lose(const boost::system::error_code& ec) {
        lose(ec == boost::asio::error::eof ? "its end of the connection was closed"
                                           : "the connection broke: " + ec.message());
    }
    void lose(const std::string& how) {
        if (ended_) return;
        auto const lost = std::move(events_.lost);
        close();
        if (lost) lost(how);
    }

    tcp_socket::socket socket_;
    kept_from_children kept_;
    events events_{};
    std::deque<std::shared_ptr<tree_frame>> queue_{};
    message head_out_{};
    std::array<std::byte, frame_head_bytes> head_in_{};
    message table_{};
    frame_head head_{};
    std::vector<std::uint64_t> lengths_{};
    std::shared_ptr<message> part_{};
    bool finishing_ = false;
    bool ended_ = false;
};

}  // namespace cairn::detail

#endif
