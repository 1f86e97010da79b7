// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ACCEPTOR_HPP
#define CAIRN_COMM_DETAIL_TCP_ACCEPTOR_HPP

#include <cairn/comm/detail/tcp/actions.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The accepting side of a handshake, without I/O: a peer is admitted only once it has proven that
/// it has the secret, which also shows that the connection is still alive.
///
/// At most 64 connections are in their handshake at once; others wait in the socket's queue. One
/// that has not proven itself within ten seconds is closed.
class handshake_acceptor {
public:
    using time = std::chrono::steady_clock::time_point;
    using verdict = join_answer::verdict;
    static constexpr std::size_t most_greeted = 64;
    static constexpr std::chrono::seconds greeting_timeout{10};
    struct arrival {
        join_request who{};
        std::string from{};
    };

    explicit handshake_acceptor(handshake_context& c) : context_(c) {}

    void open(const bytes_16& secret) {
        secret_ = secret;
        open_ = true;
        accept();
    }
    bool knows(int c) const { return greeted_.count(c) != 0 || proven_.count(c) != 0; }
    bool greeting() const noexcept { return !greeted_.empty(); }
    int accepted(std::string from, time now) {
        auto const c = context_.next_connection();
        greeted_.emplace(c, greeting_state{std::move(from), now + greeting_timeout, {true}});
        accept();
        return c;
    }
    /// Stops accepting until a point in time.
    void pause(time until) {
        paused_ = until;
        accept();
    }

    /// @return A peer that has proven that it has the secret.
    std::optional<arrival> received(int c, std::span<const std::byte> body) {
        auto const it = greeted_.find(c);
        if (it == greeted_.end()) {  // no further message is expected from it
            drop(c);
            return {};
        }
        try {
            return greet(c, it->second, body);
        } catch (const error&) {
            drop(c);
            return {};
        }
    }
    /// The peer uses a different version or protocol.
    void misread(int c, bool another_version) {
        if (another_version) context_.send(c, plain_handshake(handshake_kind::not_this_group, {}));
        drop(c);
    }
    /// @pre `c` has proven itself.
    void answer(int c, const join_answer& a) {
        auto const it = proven_.find(c);
        if (it == proven_.end()) return;
        context_.send(c, it->second.proven(secret_, encode(a)));
        if (a.says != verdict::wait && a.says != verdict::stay) drop(c);
    }
    void lost(int c) {
        greeted_.erase(c);
        proven_.erase(c);
        accept();
    }
    void drop(int c) {
        context_.act(type::close, c);
        lost(c);
    }
    /// Stops accepting.
    void close() {
        open_ = false;
        while (!greeted_.empty()) drop(greeted_.begin()->first);
        accept();
    }
    void tick(time now) {
        std::vector<int> late;
        for (auto const& [c, g] : greeted_)
            if (now >= g.by) late.push_back(c);
        for (int c : late) drop(c);
        if (paused_ && now >= *paused_) {
            paused_.reset();
            accept();
        }
    }
    time wake() const {
        auto t = paused_.value_or(time::max());
        for (auto const& [c, g] : greeted_) t = std::min(t, g.by);
        return t;
    }

private:
    using type = handshake_action::type;
    struct greeting_state {
        std::string from;
        time by;
        handshake_session session;
        bool challenged = false;
    };

    void accept() {
        bool const yes = open_ && !paused_ && greeted_.size() < most_greeted;
        if (std::exchange(accepting_, yes) != yes) context_.act(yes ? type::accept : type::do_not);
    }
    std::optional<arrival> greet(int c, greeting_state& g, std::span<const std::byte> body) {
        wire_reader r(body);
        auto const kind = static_cast<handshake_kind>(r.u8());
        if (!g.challenged) {
            if (kind != handshake_kind::hello) wire_reader::fail("a handshake out of order");
            auto const nonce = r.raw(g.session.theirs.size());
            std::memcpy(g.session.theirs.data(), nonce.data(), nonce.size());
            g.session.ours = context_.nonce();
            g.challenged = true;
            context_.send(c, plain_handshake(handshake_kind::challenge, g.session.ours));
            return {};
        }
        if (kind != handshake_kind::join) wire_reader::fail("a handshake out of order");
        auto const proven = g.session.checked(secret_, body);
        if (!proven) {
            context_.send(c, plain_handshake(handshake_kind::not_this_group, {}));
            drop(c);
            return {};
        }
        wire_reader join(proven->subspan(1));
        arrival a{decode_join(join), g.from};
        proven_.emplace(c, g.session);
        greeted_.erase(c);
        accept();
        return a;
    }

    handshake_context& context_;
    bytes_16 secret_{};
    bool open_ = false;
    bool accepting_ = false;
    std::optional<time> paused_{};
    std::map<int, greeting_state> greeted_{};
    std::map<int, handshake_session> proven_{};
};

}  // namespace cairn::detail

#endif
