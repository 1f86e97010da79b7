// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_JOIN_HPP
#define CAIRN_COMM_TCP_JOIN_HPP

#include <cairn/comm/tcp/door.hpp>
#include <cairn/comm/tree/topology.hpp>

#include <boost/asio/connect.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Where rank 0 is and how it knows us; asked before each attempt. Nothing: not known yet.
using tcp_id_source = std::function<std::optional<tcp_id>()>;

/// A rank's connections to its neighbours in the tree, once the group is complete.
struct tcp_neighbours {
    std::uint64_t epoch = 0;
    std::map<int, tcp_socket::socket> sockets{};
};

/// How a group comes together. Every rank greets rank 0, which answers when all have come: its own
/// children stay, the others are sent to their parents as soon as those have come. Who is not
/// rank 0 lets its children in when it has been let in itself, so that a refusal reaches all.
class tcp_joining {
public:
    /// @param listener  Null for a rank without children.
    tcp_joining(boost::asio::io_context& io, tree_topology where, tcp_listener* listener,
                std::array<std::uint8_t, 16> secret)
        : io_(io), at_(where), children_(where.children()), secret_(secret) {
        if (listener != nullptr)
            door_.emplace(*listener, secret_,
                          [this](visitor_ptr v, const tcp_hello& h) { meet(std::move(v), h); });
    }
    tcp_joining(tcp_joining&&) = delete;
    virtual ~tcp_joining() = default;

    /// @throws error errc::timed_out or errc::invalid_argument naming who is missing or wrong
    tcp_neighbours run(std::chrono::steady_clock::time_point by) {
        check();
        while (!over_ && !failure_) {
            if (io_.run_one_until(by) == 0 && std::chrono::steady_clock::now() >= by)
                failure_ = too_late();
        }
        if (door_) door_->close();
        if (failure_) {
            turn_all_away(failure_->what());
            // So that they hear of it.
            io_.run_for(std::chrono::milliseconds(300));
            throw *failure_;
        }
        return std::move(found_);
    }

protected:
    using verdict = tcp_welcome::verdict;

    /// Somebody with the secret has come through this rank's door.
    virtual void meet(visitor_ptr v, const tcp_hello& h) = 0;
    /// Something has changed: who can be answered now?
    virtual void check() = 0;
    virtual void turn_all_away(const std::string& why) = 0;
    virtual error too_late() const = 0;

    void let_in(int rank, const visitor_ptr& v) {
        v->say(encode(tcp_welcome{verdict::come_in, {}, found_.epoch, {}}),
               [this, rank, v](std::exception_ptr e) {
                   if (e) return;  // its own next attempt, or the deadline
                   found_.sockets.emplace(rank, std::move(v->socket));
                   check();
               });
    }
    static void hold(const visitor_ptr& v, std::function<void()> then) {
        v->say(encode(tcp_welcome{}), [then = std::move(then)](std::exception_ptr e) {
            if (!e) then();
        });
    }
    bool is_child(int rank) const {
        return std::find(children_.begin(), children_.end(), rank) != children_.end();
    }
    std::string absent(const std::function<bool(int)>& here, const std::vector<int>& of) const {
        constexpr std::size_t most = 8;
        std::string s;
        std::size_t n = 0;
        for (int r : of) {
            if (here(r)) continue;
            if (++n <= most) s += (s.empty() ? "rank " : ", rank ") + std::to_string(r);
        }
        return n > most ? s + ", and " + std::to_string(n - most) + " more" : s;
    }

    boost::asio::io_context& io_;
    tree_topology at_;
    std::vector<int> children_;
    std::array<std::uint8_t, 16> secret_;
    std::optional<tcp_door> door_{};
    tcp_neighbours found_{};
    std::optional<error> failure_{};
    bool over_ = false;
};

/// Rank 0's part.
class tcp_founder final : public tcp_joining {
public:
    tcp_founder(boost::asio::io_context& io, tree_topology where, tcp_listener& listener,
                std::array<std::uint8_t, 16> secret, std::uint64_t epoch)
        : tcp_joining(io, where, &listener, secret) {
        found_.epoch = epoch;
    }

private:
    struct guest {
        visitor_ptr here{};  ///< Not yet answered.
        std::vector<tcp_address> addresses{};
        std::string from{};
    };

    void meet(visitor_ptr v, const tcp_hello& h) override {
        if (auto const wrong = differs(h); !wrong.empty()) {
            failure_ = error(errc::invalid_argument,
                             {.rank = h.rank,
                              .expected = "rank 1 to " + std::to_string(at_.size - 1) +
                                          " of " + std::to_string(at_.size) + ", fan-in " +
                                          std::to_string(at_.fan_in) + ", as rank 0 has it",
                              .found = wrong + ", from " + v->where(),
                              .remedy = "start all ranks alike"});
            return tcp_door::refuse(v, verdict::refused, failure_->what());
        }
        if (auto const it = guests_.find(h.rank); it != guests_.end())
            return tcp_door::refuse(v, verdict::refused,
                                    "rank " + std::to_string(h.rank) + " has come already, from " +
                                        it->second.from);
        guests_[h.rank] = {nullptr, h.addresses, v->where()};
        hold(v, [this, v, rank = h.rank] {
            guests_[rank].here = v;
            check();
        });
    }
    std::string differs(const tcp_hello& h) const {
        if (h.size != at_.size)
            return "rank " + std::to_string(h.rank) + " of " + std::to_string(h.size);
        if (h.fan_in != at_.fan_in) return "fan-in " + std::to_string(h.fan_in);
        if (h.rank < 1 || h.rank >= at_.size) return "rank " + std::to_string(h.rank);
        return {};
    }
    void check() override {
        for (auto& [rank, g] : guests_) {
            auto const parent = tree_topology{rank, at_.size, at_.fan_in}.parent();
            if (!g.here || parent == 0) continue;
            auto const p = guests_.find(parent);
            if (p == guests_.end()) continue;
            auto const v = std::exchange(g.here, nullptr);
            v->say(encode(tcp_welcome{verdict::come_in, {}, found_.epoch, p->second.addresses}),
                   [v](auto) { v->close(); });
        }
        if (guests_.size() + 1 != static_cast<std::size_t>(at_.size)) return;
        for (int child : children_)
            if (auto const v = std::exchange(guests_[child].here, nullptr)) let_in(child, v);
        over_ = found_.sockets.size() == children_.size();
    }
    void turn_all_away(const std::string& why) override {
        for (auto& [rank, g] : guests_)
            if (auto const v = std::exchange(g.here, nullptr))
                tcp_door::refuse(v, verdict::refused, why);
    }
    error too_late() const override {
        std::vector<int> all;
        for (int r = 1; r < at_.size; ++r) all.push_back(r);
        return {errc::timed_out,
                {.expected = "all " + std::to_string(at_.size) + " ranks to join",
                 .found = absent([this](int r) { return guests_.count(r) != 0; }, all) +
                          " did not come",
                 .remedy = "see whether they run, and reach rank 0"}};
    }

    std::map<int, guest> guests_{};
};

/// The part of any other rank.
class tcp_joiner final : public tcp_joining {
public:
    /// @param mine  Where this rank's children find it.
    tcp_joiner(boost::asio::io_context& io, tree_topology where, tcp_listener* listener,
               tcp_id_source source, std::vector<tcp_address> mine)
        : tcp_joining(io, where, listener, {}), source_(std::move(source)), mine_(std::move(mine)),
          pause_(io) {
        attempt();
    }

private:
    void attempt() {
        if (failure_ || over_) return;
        if (!to_parent_) {
            auto const id = source_();
            if (!id) return pause(std::chrono::milliseconds(50));
            root_ = id->addresses;
            secret_ = id->secret;
        }
        auto const& all = to_parent_ ? parent_ : root_;
        if (all.empty()) return fail("no address is known to go to");
        auto const at = all[static_cast<std::size_t>(attempts_) % all.size()];
        auto const round = attempts_++ / static_cast<int>(all.size());
        auto const v = std::make_shared<tcp_visitor>(tcp_socket::socket(io_));
        auto const resolver = std::make_shared<tcp_socket::resolver>(io_);
        v->expire_after(std::chrono::seconds(std::min(1 + round, 5)));
        resolver->async_resolve(
            at.host, std::to_string(at.port), [this, v, at, resolver](auto ec, auto results) {
                if (ec) return again(v, at, ec.message());
                boost::asio::async_connect(v->socket, results, [this, v, at](auto e, auto) {
                    if (e) return again(v, at, e == boost::asio::error::operation_aborted
                                                   ? "no answer" : e.message());
                    greet(v, at);
                });
            });
    }
    void greet(const visitor_ptr& v, const tcp_address& at) {
        tcp_hello const h{secret_, to_parent_ ? found_.epoch : 0, at_.rank, at_.size, at_.fan_in,
                          mine_};
        v->expire_after(std::chrono::seconds(5));
        v->say(encode(h), [this, v, at](std::exception_ptr e) {
            if (e) return again(v, at, "it closed the connection");
            listen(v, at);
        });
    }
    void listen(const visitor_ptr& v, const tcp_address& at) {
        v->receive([this, v, at](std::exception_ptr e) {
            if (e) return again(v, at, "no rank of cairn's, or it closed the connection");
            tcp_welcome w;
            try {
                w = decode_welcome(v->body);
            } catch (const error& x) {
                return again(v, at, x.what());
            }
            switch (w.says) {
                case verdict::hold: return listen(v, at);  // no hurry any more
                case verdict::refused: return fail(w.why);
                case verdict::not_this_job: return again(v, at, w.why);
                case verdict::come_in: break;
            }
            if (!to_parent_ && !w.parent.empty()) {
                v->close();
                found_.epoch = w.epoch;
                to_parent_ = true;
                parent_ = w.parent;
                attempts_ = 0;
                return attempt();
            }
            found_.epoch = w.epoch;
            found_.sockets.emplace(at_.parent(), std::move(v->socket));
            check();
        });
    }
    void again(const visitor_ptr& v, const tcp_address& at, const std::string& why) {
        v->close();
        last_ = at.text() + ": " + why;
        auto const all = to_parent_ ? parent_.size() : root_.size();
        bool const all_tried = static_cast<std::size_t>(attempts_) % all == 0;
        pause(std::chrono::milliseconds(all_tried ? 100 : 1));
    }
    void pause(std::chrono::milliseconds t) {
        pause_.expires_after(t);
        pause_.async_wait([this](auto ec) {
            if (!ec) attempt();
        });
    }
    void fail(const std::string& why) {
        failure_ = error(errc::invalid_argument,
                         {.rank = at_.rank, .expected = "to be let into the group", .found = why});
    }

    void meet(visitor_ptr v, const tcp_hello& h) override {
        if (h.size != at_.size || !is_child(h.rank) || guests_.count(h.rank) != 0)
            return tcp_door::refuse(v, verdict::refused,
                                    "rank " + std::to_string(h.rank) + " does not belong to rank " +
                                        std::to_string(at_.rank) + ", or has come already");
        guests_[h.rank] = nullptr;
        hold(v, [this, v, rank = h.rank] {
            guests_[rank] = v;
            check();
        });
    }
    void check() override {
        if (found_.sockets.count(at_.parent()) == 0) return;
        for (auto& [rank, here] : guests_)
            if (auto const v = std::exchange(here, nullptr)) let_in(rank, v);
        over_ = found_.sockets.size() == children_.size() + 1;
    }
    void turn_all_away(const std::string& why) override {
        for (auto& [rank, here] : guests_)
            if (auto const v = std::exchange(here, nullptr))
                tcp_door::refuse(v, verdict::refused, why);
    }
    error too_late() const override {
        if (found_.sockets.count(at_.parent()) != 0)
            return {errc::timed_out,
                    {.rank = at_.rank,
                     .expected = "the ranks below this one",
                     .found = absent([this](int r) { return found_.sockets.count(r) != 0; },
                                     children_) + " did not come",
                     .remedy = "see whether they run, and reach this host"}};
        auto const whom =
            to_parent_ ? "rank " + std::to_string(at_.parent()) : std::string("rank 0");
        return {errc::timed_out,
                {.rank = at_.rank,
                 .expected = whom + " to let this rank in",
                 .found = !last_.empty() ? last_
                          : root_.empty() ? std::string("its address is not known")
                                          : std::string("it waits for others"),
                 .remedy = "see whether " + whom + " runs and can be reached from here"}};
    }

    tcp_id_source source_;
    std::vector<tcp_address> mine_;
    std::vector<tcp_address> root_{}, parent_{};
    bool to_parent_ = false;
    int attempts_ = 0;
    std::string last_{};
    std::map<int, visitor_ptr> guests_{};
    boost::asio::steady_timer pause_;
};

}  // namespace cairn::detail

#endif
