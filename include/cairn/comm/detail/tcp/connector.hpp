// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_CONNECTOR_HPP
#define CAIRN_COMM_DETAIL_TCP_CONNECTOR_HPP

#include <cairn/comm/detail/tcp/actions.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The connecting side of a handshake, without I/O: finds the process that has the secret. It may
/// have several addresses, some of them unreachable or in use by a different process.
///
/// Attempts overlap: an address is tried without waiting for the previous attempt to end. An
/// established connection is kept until it breaks, even without an answer: the other side may be
/// late. The first connection that receives a challenge is used.
class handshake_connector {
public:
    using time = std::chrono::steady_clock::time_point;
    using verdict = join_answer::verdict;

    explicit handshake_connector(handshake_context& c) : context_(c) {}

    /// Connects to `addresses`; ends all earlier attempts.
    /// @param who  Describes this rank.
    void aim(const std::vector<tcp_address>& addresses, const bytes_16& secret, join_request who,
             time now) {
        stop();
        secret_ = secret;
        who_ = std::move(who);
        for (auto const& a : addresses) attempts_.push_back({.to = a});
        next_ = now;
        tick(now);
    }
    void stop() {
        for (auto& a : attempts_) close(a);
        attempts_.clear();
        used_ = -1;
        proven_ = false;
    }
    bool knows(int c) const { return find(c) != nullptr; }
    /// Whether the other side has proven that it has the secret.
    bool proven() const noexcept { return proven_; }
    /// Why the last attempt failed; empty if none has.
    const std::string& last() const noexcept { return last_; }

    /// The name of the address was looked up, which may take long: the connection begins.
    void resolved(int c, time now) {
        if (auto* const a = find(c))
            a->by = now + std::chrono::seconds(std::min(1 + a->failures, 5));
    }
    void connected(int c) {
        auto* const a = find(c);
        if (a == nullptr) return;
        a->is = state::open;
        a->session = {};
        a->session.ours = context_.nonce();
        context_.send(c, plain_handshake(handshake_kind::hello, a->session.ours));
    }
    /// A connection failed or was lost.
    void lost(int c, const std::string& why, time now) {
        if (auto* const a = find(c)) fail(*a, why, now);
    }
    /// @return The answer, if the other side is proven to have sent it.
    std::optional<join_answer> received(int c, std::span<const std::byte> body, time now) {
        auto* const a = find(c);
        if (a == nullptr) return {};
        try {
            return take(*a, body, now);
        } catch (const error& e) {
            fail(*a, e.what(), now);
            return {};
        }
    }
    void misread(int c, const std::string& why, time now) {
        if (auto* const a = find(c)) fail(*a, why, now);
    }
    /// Starts again after a delay.
    void retry(std::chrono::milliseconds after, time now) {
        for (auto& a : attempts_) {
            close(a);
            a.not_before = now + after;
        }
        used_ = -1;
        proven_ = false;
        next_ = now + after;
    }
    /// Releases the connection in use to the caller.
    int release() {
        auto const c = used_;
        if (auto* const a = find(c)) a->connection = -1;
        stop();
        return c;
    }

    void tick(time now) {
        for (auto& a : attempts_)
            if (waits(a) && now >= a.by) fail(a, "no answer", now);
        if (used_ >= 0 || now < next_) return;
        // Addresses are ordered by likelihood; among failed ones, the one that has waited longest
        // is next.
        attempt* best = nullptr;
        bool any = false;
        for (auto& a : attempts_) {
            any = any || a.is == state::open || a.is == state::challenged;
            if (a.is != state::idle || now < a.not_before) continue;
            if (best == nullptr || a.not_before < best->not_before) best = &a;
        }
        if (best == nullptr) return;
        best->connection = context_.next_connection();
        best->is = state::connecting;
        best->by = now + longest_look_up;
        context_.connect(best->connection, best->to);
        next_ = now + (any ? std::chrono::milliseconds(2000) : std::chrono::milliseconds(100));
    }
    time wake() const {
        auto t = time::max();
        for (auto const& a : attempts_) {
            if (waits(a)) t = std::min(t, a.by);
            if (a.is == state::idle && used_ < 0) t = std::min(t, std::max(a.not_before, next_));
        }
        return t;
    }

private:
    /// A resolver asks name servers in turn, each for 5 s or so.
    static constexpr std::chrono::seconds longest_look_up{30};
    enum class state { idle, connecting, open, challenged };
    struct attempt {
        tcp_address to{};
        state is = state::idle;
        int connection = -1;
        int failures = 0;
        time by{};          ///< Deadline for what `waits` describes.
        time not_before{};  ///< When to try again.
        handshake_session session{};
    };

    /// Whether it waits for a connection, or for the first answer after a challenge.
    bool waits(const attempt& a) const {
        return a.is == state::connecting || (a.connection == used_ && used_ >= 0 && !proven_);
    }
    attempt* find(int c) {
        for (auto& a : attempts_)
            if (c >= 0 && a.connection == c) return &a;
        return nullptr;
    }
    const attempt* find(int c) const { return const_cast<handshake_connector*>(this)->find(c); }

    std::optional<join_answer> take(attempt& a, std::span<const std::byte> body, time now) {
        wire_reader r(body);
        auto const kind = static_cast<handshake_kind>(r.u8());
        if (kind == handshake_kind::not_this_group) {
            fail(a, "the group there is another one", now);
            return {};
        }
        if (a.is == state::open && kind == handshake_kind::challenge) {
            auto const nonce = r.raw(a.session.theirs.size());
            std::memcpy(a.session.theirs.data(), nonce.data(), nonce.size());
            a.is = state::challenged;
            if (used_ < 0) use(a, now);
            return {};
        }
        if (a.connection != used_ || kind != handshake_kind::answer)
            wire_reader::fail("a handshake out of order");
        auto const said = a.session.checked(secret_, body);
        if (!said) wire_reader::fail("an answer from a peer that does not have the group's secret");
        wire_reader answer(said->subspan(1));
        auto out = decode_answer(answer);
        if (!std::exchange(proven_, true))
            for (auto& other : attempts_)
                if (&other != &a) close(other);
        a.failures = 0;
        return out;
    }
    void use(attempt& a, time now) {
        used_ = a.connection;
        a.by = now + std::chrono::seconds(10);
        context_.send(a.connection, a.session.proven(secret_, encode(who_)));
    }
    void fail(attempt& a, const std::string& why, time now) {
        last_ = a.to.text() + ": " + why;
        bool const was_used = a.connection == used_;
        close(a);
        a.failures = std::min(a.failures + 1, 20);
        std::chrono::milliseconds const pause(std::min(50 << std::min(a.failures, 5), 1000));
        a.not_before = now + pause;
        if (!was_used) return;
        used_ = -1;
        proven_ = false;
        next_ = now;
        for (auto& other : attempts_)
            if (other.is == state::challenged) return use(other, now);
    }
    void close(attempt& a) {
        if (a.connection >= 0) context_.act(handshake_action::type::close, a.connection);
        a.connection = -1;
        a.is = state::idle;
    }

    handshake_context& context_;
    bytes_16 secret_{};
    join_request who_{};
    std::vector<attempt> attempts_{};
    time next_{};  ///< When the next attempt may begin.
    int used_ = -1;
    bool proven_ = false;
    std::string last_{};
};

}  // namespace cairn::detail

#endif
