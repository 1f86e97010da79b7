// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ASYNC_HANDSHAKE_HPP
#define CAIRN_COMM_DETAIL_TCP_ASYNC_HANDSHAKE_HPP

#include <cairn/comm/detail/tcp/handshake.hpp>
#include <cairn/comm/detail/tcp/handshake_connection.hpp>
#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/comm/detail/tcp/process_in_words.hpp>
#include <cairn/comm/liveness.hpp>

#include <boost/asio/compose.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Returns the addresses of rank 0; called repeatedly. Empty: not known yet.
using tcp_id_source = std::function<std::optional<tcp_id>()>;

/// A rank's connections to its neighbours in the tree, once the group is complete.
struct tcp_neighbours {
    std::uint64_t epoch = 0;
    std::map<int, owned_socket> sockets{};
};

/// Does the I/O that a `tcp_handshake` asks for, on a strand of its own.
class handshake_shell : public std::enable_shared_from_this<handshake_shell> {
public:
    using clock = std::chrono::steady_clock;

    /// @param listeners   On rank 0; not open elsewhere.
    /// @param interfaces  Whose addresses this rank listens at.
    handshake_shell(const boost::asio::any_io_executor& ex, tree_topology where,
                    clock::time_point by, tcp_id_source source, open_descriptors listeners,
                    std::string interfaces, const liveness_options& alive = {})
        : strand_(boost::asio::make_strand(ex)),
          decides_(where, by, random(), process_in_words(), alive), source_(std::move(source)),
          interfaces_(std::move(interfaces)), timer_(strand_),
          done_(strand_, clock::time_point::max()) {
        if (!listeners.empty()) listener_.emplace(strand_, std::move(listeners));
    }

    /// Represents the operation: cancelled when it has ended.
    boost::asio::steady_timer& done() noexcept { return done_; }
    void begin() {
        boost::asio::dispatch(strand_, [self = shared_from_this()] {
            self->event([&] { self->decides_.start(clock::now()); });
        });
    }
    void cancel() {
        boost::asio::dispatch(strand_, [self = shared_from_this()] {
            self->event([&] { self->decides_.give_up(error(errc::cancelled, {}), clock::now()); });
        });
    }
    bool over() const noexcept { return over_; }
    /// @pre over()
    std::exception_ptr failure() const { return failure_; }
    tcp_neighbours take() { return std::move(found_); }

private:
    using type = handshake_action::type;
    using connection = std::shared_ptr<handshake_connection>;

    static std::function<std::uint64_t()> random() {
        auto const source = std::make_shared<std::random_device>();
        return [source] { return (std::uint64_t{(*source)()} << 32) | (*source)(); };
    }

    /// Passes an event to the handshake, then performs the actions that it requests.
    template <class F>
    void event(F&& f) {
        if (over_) return;
        if (busy_) return f();  // called from `perform`: the outer call continues
        busy_ = true;
        if (auto const now = clock::now(); armed_ && now > *armed_ + longest_delay)
            decides_.stood_still(now - *armed_);
        try {
            attempt(f);
            bool more = true;
            while (more) attempt([&] { more = perform(); });
            busy_ = false;
            if (decides_.over()) return end();
            arm();
        } catch (...) {  // e.g. out of memory
            failure_ = std::current_exception();
            end();
        }
    }
    void arm() {
        // An event that has taken long is no stop: what was due meanwhile is due now.
        auto const now = clock::now();
        armed_ = std::clamp(decides_.wake(), now, now + std::chrono::seconds(1));
        timer_.expires_at(*armed_);
        timer_.async_wait([self = shared_from_this()](const error_code& ec) {
            if (!ec) self->event([&] { self->decides_.tick(clock::now()); });
        });
    }
    /// Runs `f`; an error not confined to one connection ends the handshake, and the others are
    /// notified.
    template <class F>
    void attempt(F&& f) {
        try {
            f();
        } catch (const error& e) {
            decides_.give_up(e, clock::now());
        }
    }
    /// @return Whether there was anything to do.
    bool perform() {
        auto actions = decides_.take_actions();
        for (auto& a : actions) {
            switch (a.what) {
                case type::look_up: decides_.found(source_(), clock::now()); break;
                case type::listen: listen(a.rank == 1); break;
                case type::accept: accept(true); break;
                case type::do_not: accept(false); break;
                case type::connect: connect(a.connection, a.to); break;
                case type::send:
                    if (auto const c = find(a.connection)) c->send(std::move(a.bytes));
                    break;
                case type::close:
                    if (auto const c = find(a.connection)) c->finish();
                    break;
                case type::keep:
                    if (auto const c = find(a.connection)) c->keep(a.rank);
                    break;
            }
        }
        return !actions.empty();
    }

    void listen(bool loopback) {
        listener_.emplace(strand_, loopback ? loopback_hosts() : local_hosts(interfaces_));
        decides_.listening(listener_->addresses(), clock::now());
    }
    void accept(bool yes) {
        accepting_ = yes;
        if (!listener_) return;
        for (std::size_t i = 0; i < listener_->acceptors().size(); ++i) {
            if (yes) {
                accept_at(i);
            } else {
                boost::system::error_code ignored;
                listener_->acceptors()[i].cancel(ignored);
            }
        }
    }
    void accept_at(std::size_t i) {
        if (!accepting_ || !pending_.insert(i).second) return;
        listener_->acceptors()[i].async_accept(
            [self = shared_from_this(), i](auto ec, tcp_socket::socket s) {
                self->pending_.erase(i);
                self->event([&] {
                    if (!ec)
                        self->adopt(std::move(s));
                    else if (ec != boost::asio::error::operation_aborted)
                        self->decides_.not_accepted(ec.message(), !remedy_for(ec).empty(),
                                                    clock::now());
                    self->accept_at(i);
                });
            });
    }
    void adopt(tcp_socket::socket s) {
        boost::system::error_code ec;
        auto const e = s.remote_endpoint(ec);
        auto const from =
            ec ? std::string("somewhere") : tcp_address{e.address().to_string(), e.port()}.text();
        auto const c = make(std::move(s));
        c->number = decides_.accepted(from, clock::now());
        all_.emplace(c->number, c);
        c->receive();
    }
    void connect(int number, const tcp_address& to) {
        auto const c = make(tcp_socket::socket(strand_));
        c->number = number;
        all_.emplace(number, c);
        c->connect(to);
    }
    connection find(int number) const {
        auto const it = all_.find(number);
        return it == all_.end() ? nullptr : it->second;
    }

    connection make(tcp_socket::socket s) {
        handshake_connection::events e;
        // A connection does not outlive this: `end` closes them all.
        e.resolved = [this](int n) { event([&] { decides_.resolved(n, clock::now()); }); };
        e.connected = [this](int n) { event([&] { decides_.connected(n, clock::now()); }); };
        e.failed = [this](int n, const boost::system::error_code& ec) {
            all_.erase(n);
            event([&] { decides_.failed(n, ec.message(), !remedy_for(ec).empty(), clock::now()); });
        };
        e.message = [this](int n, std::span<const std::byte> body) {
            event([&] { decides_.received(n, body, clock::now()); });
        };
        e.misread = [this](int n, const error& why) {
            bool const version = why.code() == make_error_code(errc::unsupported);
            event([&] { decides_.misread(n, why.what(), version, clock::now()); });
        };
        e.sent = [this](int n) { event([&] { decides_.sent(n, clock::now()); }); };
        e.kept = [this](int n, int rank) { event([&] { decides_.kept(n, rank, clock::now()); }); };
        e.lost = [this](int n, const std::string& why) {
            all_.erase(n);
            event([&] { decides_.lost(n, why, clock::now()); });
        };
        e.closed = [this](int n) { all_.erase(n); };
        return std::make_shared<handshake_connection>(std::move(s), std::move(e));
    }

    void end() {
        if (over_.exchange(true)) return;
        try {
            if (!failure_ && decides_.failure())
                failure_ = std::make_exception_ptr(*decides_.failure());
            found_.epoch = decides_.epoch();
            for (auto const& [n, c] : all_)
                if (!failure_ && c->kept_for() >= 0)
                    found_.sockets.emplace(c->kept_for(), c->release());
        } catch (...) {  // out of memory: whoever waits for the end must still be told
            failure_ = std::current_exception();
            found_.sockets.clear();
        }
        for (auto const& [n, c] : std::exchange(all_, {})) c->close();
        listener_.reset();
        timer_.cancel();
        done_.cancel();
    }

    boost::asio::strand<boost::asio::any_io_executor> strand_;
    tcp_handshake decides_;
    tcp_id_source source_;
    std::string interfaces_;
    std::optional<tcp_listener> listener_{};
    boost::asio::steady_timer timer_, done_;
    /// A timer that is later than this shows that this process, or the whole job, was stopped.
    static constexpr std::chrono::seconds longest_delay{2};
    std::optional<clock::time_point> armed_{};
    std::map<int, connection> all_{};
    std::set<std::size_t> pending_{};
    bool accepting_ = false;
    bool busy_ = false;
    std::atomic<bool> over_{false};
    std::exception_ptr failure_{};
    tcp_neighbours found_{};
};

/// **Completion signature**: `void(std::exception_ptr, tcp_neighbours)`.
/// **Cancellation**: terminal; the other ranks are notified.
template <class Token>
auto async_handshake(std::shared_ptr<handshake_shell> shell, Token&& token) {
    auto& io = shell->done();
    return boost::asio::async_compose<Token, void(std::exception_ptr, tcp_neighbours)>(
        [shell = std::move(shell), begun = false](auto& self,
                                                  const boost::system::error_code& = {}) mutable {
            auto const s = shell;
            if (!std::exchange(begun, true)) {
                s->done().async_wait(std::move(self));
                return s->begin();
            }
            if (s->over()) return self.complete(s->failure(), s->take());
            s->cancel();
            self.complete(std::make_exception_ptr(error(errc::cancelled, {})), {});
        },
        token, io);
}

}  // namespace cairn::detail

#endif
