// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ENGINE_HPP
#define CAIRN_COMM_DETAIL_TCP_ENGINE_HPP

#include <cairn/comm/detail/tcp/async_handshake.hpp>
#include <cairn/comm/detail/tcp/link.hpp>
#include <cairn/comm/detail/tree/engine.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>
#include <cairn/detail/own_thread.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace cairn::detail {

/// Carries the lanes of one rank over its TCP connections, on a thread of its own, which runs until
/// the last group that uses it has ended.
class tcp_engine final : public tree_engine, public std::enable_shared_from_this<tcp_engine> {
public:
    using clock = std::chrono::steady_clock;

    tcp_engine(tree_topology where, const liveness_options& o, tcp_neighbours found)
        : lanes_(where, found.epoch, o, clock::now()) {
        for (auto& [peer, s] : found.sockets) connect(peer, std::move(s).on(io_));
    }

    /// @throws std::system_error
    void start() {
        thread_.start([self = shared_from_this()] { self->serve(); });
    }
    const tree_topology& where() const noexcept override { return lanes_.where(); }
    /// Runs `f` later, on the engine's thread.
    void run(work f) override {
        // Not `self`: a handler that never runs would keep the engine, and thus itself, alive.
        boost::asio::post(io_, [this, f = std::move(f)] {
            f(lanes_, clock::now());
            pump();
        });
    }
    void attach() noexcept override { ++seats_; }
    /// Detaches a group; the last one waits up to a second for data in flight.
    void detach() noexcept override {
        if (--seats_ > 0) return;
        try {
            boost::asio::post(io_, [this] { leave(); });
        } catch (...) {  // no memory: data in flight are not waited for
            io_.stop();
        }
        thread_.end();
    }

private:
    void connect(int peer, tcp_socket::socket s) {
        auto const link = std::make_shared<tcp_link>(std::move(s));
        links_.emplace(peer, link);
        // The links end before the engine does: `leave` closes them.
        link->start({[this, peer] { lanes_.heard(peer, clock::now()); },
                     [this, peer] { lanes_.moved(peer, clock::now()); },
                     [this, peer](tree_frame f) {
                         lanes_.received(peer, std::move(f), clock::now());
                         pump();
                     },
                     [this, peer](const std::string& how) {
                         lanes_.lost(peer, "rank " + std::to_string(peer) + ": " + how,
                                     clock::now());
                         pump();
                     }});
    }
    void serve() {
        std::string failed;
        for (;;) {
            try {
                if (!std::exchange(failed, {}).empty()) pump();
                io_.run();
                return;
            } catch (const std::exception& e) {  // e.g. out of memory
                try {
                    failed = e.what();
                    lanes_.fail_all(error(errc::rank_failed, {.found = failed}), clock::now());
                } catch (...) {  // nor for that: the other ranks wait until their deadline
                }
            }
        }
    }
    /// Carries out the decisions of the lanes.
    void pump() {
        for (auto& p : lanes_.take_posts()) links_.at(p.to)->send(std::move(p.frame));
        auto const wake = lanes_.wake();
        if (wake != armed_) {
            armed_ = wake;
            timer_.expires_at(wake);
            timer_.async_wait([this](const auto& ec) {
                if (ec) return;
                armed_ = {};
                lanes_.tick(clock::now());
                pump();
            });
        }
        for (auto const& f : lanes_.take_ended()) f();
    }
    void leave() {
        timer_.cancel();
        for (auto& [peer, l] : links_) l->finish();
        wait_for_links(std::chrono::milliseconds(1000));
    }
    void wait_for_links(std::chrono::milliseconds most) {
        bool over = true;
        for (auto& [peer, l] : links_) over = over && l->over();
        if (over || most.count() <= 0) {
            for (auto& [peer, l] : links_) l->close();
            work_.reset();
            io_.stop();
            return;
        }
        timer_.expires_after(std::chrono::milliseconds(5));
        timer_.async_wait(
            [this, most](const auto&) { wait_for_links(most - std::chrono::milliseconds(5)); });
    }

    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        io_.get_executor()};
    tree_lanes lanes_;
    std::map<int, std::shared_ptr<tcp_link>> links_{};
    boost::asio::steady_timer timer_{io_};
    clock::time_point armed_{};
    std::atomic<int> seats_{0};
    own_thread thread_{};
};

}  // namespace cairn::detail

#endif
