// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_HANDSHAKE_HPP
#define CAIRN_COMM_DETAIL_TCP_HANDSHAKE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/liveness_in_words.hpp>
#include <cairn/comm/detail/tcp/acceptor.hpp>
#include <cairn/comm/detail/tcp/connector.hpp>
#include <cairn/comm/detail/tcp/roster.hpp>
#include <cairn/comm/detail/tree/frame.hpp>
#include <cairn/comm/detail/tree/group_failure.hpp>
#include <cairn/comm/detail/tree/topology.hpp>
#include <cairn/comm/liveness.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// How the ranks of a group find each other: a state machine without I/O. Connections, messages and
/// the time are its input, actions its output. The same class on all ranks.
///
/// Every rank but 0 asks rank 0 to join. Rank 0 directs it to its parent in the tree or, if that is
/// rank 0 itself, admits it once all ranks have asked. A rank admits its children once it has been
/// admitted, so that a refusal reaches all ranks. While it waits for them, it sends heartbeats to
/// the neighbours that it has: they may have left their handshakes.
class tcp_handshake {
public:
    using time = std::chrono::steady_clock::time_point;

    /// @param by       Deadline for the connections to all neighbours.
    /// @param random   Random numbers.
    /// @param process  This process, for the errors of others.
    tcp_handshake(tree_topology where, time by, std::function<std::uint64_t()> random,
                  std::string process = {}, const liveness_options& alive = {})
        : at_(where), by_(by), process_(std::move(process)), alive_(alive),
          context_{std::move(random), {}, 0}, acceptor_(context_), connector_(context_),
          roster_(where, alive) {
        instance_ = context_.random();
        if (at_.rank == 0) epoch_ = context_.random() | 1;
    }

    void start(time now) {
        now_ = now;
        look_up();
        check();
    }
    /// This process was stopped so long, and the others with it, probably: that does not count.
    void stood_still(time::duration how_long) {
        if (by_ < time::max() - how_long) by_ += how_long;
    }
    /// The result of `look_up`: rank 0's id, or none if it is not known yet.
    void found(const std::optional<tcp_id>& id, time now) {
        now_ = now;
        if (failure_ || to_parent_ || !id || id == id_) return;
        id_ = id;
        if (at_.rank == 0) return acceptor_.open(id->secret);
        if (roster_.children().empty()) return aim(id->addresses);
        if (listening_) return listening(std::move(mine_), now);
        context_.act(type::listen, -1, is_loopback(*id));
    }
    /// The result of `listen`: the addresses at which this rank's children can connect.
    void listening(std::vector<tcp_address> mine, time now) {
        now_ = now;
        listening_ = true;
        mine_ = std::move(mine);
        acceptor_.open(id_->secret);
        aim(id_->addresses);
    }
    /// @return The number of the new connection.
    int accepted(std::string from, time now) {
        now_ = now;
        return acceptor_.accepted(std::move(from), now);
    }
    /// Accepting failed.
    /// @param exhausted  Because the process has too few descriptors.
    void not_accepted(const std::string& why, bool exhausted, time now) {
        now_ = now;
        if (!exhausted) return acceptor_.pause(now + std::chrono::milliseconds(10));
        bool freed = acceptor_.greeting();
        for (int c : roster_.to_put_off(0)) {
            put_off(c);
            freed = true;
        }
        acceptor_.pause(now + std::chrono::milliseconds(100));
        if (!freed) fail(no_descriptors(why));
    }
    void connected(int c, time now) {
        now_ = now;
        connector_.connected(c);
    }
    /// The address of a connection under way is known: a name was looked up.
    void resolved(int c, time now) {
        now_ = now;
        connector_.resolved(c, now);
    }
    /// A connection could not be made.
    void failed(int c, const std::string& why, bool exhausted, time now) {
        now_ = now;
        if (exhausted && connector_.knows(c)) return fail(no_descriptors(why));
        connector_.lost(c, why, now);
    }
    /// A message, without its head.
    void received(int c, std::span<const std::byte> body, time now) {
        now_ = now;
        if (failure_) return;
        if (acceptor_.knows(c)) {
            auto const a = acceptor_.received(c, body);
            if (a) arrived(c, a->who, a->from);
            if (!acceptor_.knows(c)) roster_.lost(c);
        } else if (auto const said = connector_.received(c, body, now)) {
            answered(*said);
        }
        check();
    }
    /// The received bytes are not a valid message.
    void misread(int c, const std::string& why, bool another_version, time now) {
        now_ = now;
        if (acceptor_.knows(c)) {
            acceptor_.misread(c, another_version);
            roster_.lost(c);
        }
        connector_.misread(c, why, now);
    }
    void sent(int c, time now) {
        now_ = now;
        if (auto const it = unsent_.find(c); it != unsent_.end()) unsent_.erase(it);
        check();
    }
    /// A connection has ended.
    void lost(int c, const std::string& why, time now) {
        now_ = now;
        unsent_.erase(c);
        acceptor_.lost(c);
        roster_.lost(c);
        connector_.lost(c, why, now);
        check();
    }
    /// The result of `keep`.
    void kept(int c, int rank, time now) {
        now_ = now;
        if (kept_.empty()) beat_at_ = deadline_after(alive_.heartbeat_interval, now);
        kept_.emplace(rank, c);
        check();
    }
    /// This rank has failed for another reason, or is cancelled.
    void give_up(error why, time now) {
        now_ = now;
        fail(std::move(why));
    }
    void tick(time now) {
        now_ = now;
        if (failure_) return check();
        acceptor_.tick(now);
        connector_.tick(now);
        if (now >= look_up_at_) look_up();
        if (now >= by_) fail(too_late());
        if (now >= beat_at_) beat();
        check();
    }
    time wake() const {
        if (failure_) return unsent_.empty() ? now_ : give_up_at_;
        return std::min({by_, acceptor_.wake(), connector_.wake(), look_up_at_, beat_at_});
    }

    std::vector<handshake_action> take_actions() { return std::exchange(context_.actions, {}); }
    /// Whether the handshake has ended: with success, or with a failure reported to the other
    /// ranks.
    bool over() const noexcept { return over_; }
    const std::optional<error>& failure() const noexcept { return failure_; }
    /// The group's number, the same on all ranks; not 0.
    std::uint64_t epoch() const noexcept { return epoch_; }

private:
    using type = handshake_action::type;
    using verdict = join_answer::verdict;

    void aim(const std::vector<tcp_address>& addresses) {
        join_request const me{
            instance_, to_parent_ ? epoch_ : 0, at_.rank, at_.size, at_.fan_in, mine_, process_,
            alive_};
        connector_.aim(addresses, id_->secret, me, now_);
    }

    /// The id may not exist yet, or may change, until rank 0 has answered.
    void look_up() {
        bool const again = at_.rank != 0 && !to_parent_;
        look_up_at_ = again ? now_ + std::chrono::milliseconds(id_ ? 500 : 50) : time::max();
        if (!connector_.proven()) context_.act(type::look_up);
    }
    /// A peer has proven that it has the secret.
    void arrived(int c, const join_request& who, const std::string& from) {
        if (auto const wrong = roster_.wrong(who); !wrong.empty()) {
            auto const text = wrong + ", from " + from;
            acceptor_.answer(c, {verdict::refused, text, 0, {}});
            if (at_.rank != 0) return;
            return fail(error(
                errc::invalid_argument,
                {.rank = who.rank,
                 .expected = "rank 1 to " + std::to_string(at_.size - 1) + " of " +
                             std::to_string(at_.size) + ", fan-in " + std::to_string(at_.fan_in) +
                             ", " + in_words(alive_) + ", as on rank 0",
                 .found = text,
                 .remedy = "start all ranks with the same settings"}));
        }
        auto const before = roster_.enter(c, who, from);
        if (!before.refused.empty()) {
            bool const stop = at_.rank == 0 && !before.twin.empty();
            auto const why = claimed_twice(who.rank, before.twin, tcp_roster::described(who, from));
            acceptor_.answer(c, {verdict::refused, stop ? why.what() : before.refused, 0, {}});
            if (stop) fail(why);
            return;
        }
        if (before.superseded >= 0) acceptor_.drop(before.superseded);
        acceptor_.answer(c, {verdict::wait, {}, 0, {}});
        for (int other : roster_.to_put_off(tcp_roster::most_waiting)) put_off(other);
    }
    /// Asks a rank that waits for its parent to retry later: connections are scarce.
    void put_off(int c) {
        acceptor_.answer(c, {verdict::retry, {}, 0, {}});
        roster_.lost(c);
    }
    void answered(const join_answer& a) {
        switch (a.says) {
            case verdict::wait: return;
            case verdict::retry:
                // Spread over time.
                return connector_.retry(std::chrono::milliseconds(200 + at_.rank % 64 * 5), now_);
            case verdict::refused:
                return fail(error(
                    errc::invalid_argument,
                    {.rank = at_.rank, .expected = "admission to the group", .found = a.why}));
            case verdict::go:
                if (to_parent_) return;
                epoch_ = a.epoch;
                to_parent_ = true;
                look_up_at_ = time::max();
                return aim(a.parent);
            case verdict::stay:
                epoch_ = a.epoch;
                return context_.act(type::keep, connector_.release(), at_.parent());
        }
    }
    /// Sends the answers that can be sent now.
    void check() {
        if (failure_) {
            over_ = unsent_.empty() || now_ >= give_up_at_;
            return;
        }
        if (at_.rank == 0)
            for (auto const& [c, parent] : roster_.to_send_on()) {
                acceptor_.answer(c, {verdict::go, {}, epoch_, parent});
                roster_.sent_on(c);
            }
        if (at_.rank == 0 ? roster_.complete() : kept_.count(at_.parent()) != 0) {
            for (int c : roster_.strays(epoch_))
                acceptor_.answer(c, {verdict::refused, "the group here is another one", 0, {}});
            for (auto const& [c, child] : roster_.to_let_in(epoch_)) {
                acceptor_.answer(c, {verdict::stay, {}, epoch_, {}});
                context_.act(type::keep, c, child);
            }
        }
        // A connection is not passed on in the middle of a heartbeat.
        over_ = kept_.size() == roster_.children().size() + (at_.rank != 0) && unsent_.empty();
        if (over_) acceptor_.close();
    }
    void beat() {
        if (failure_) return;
        beat_at_ = deadline_after(alive_.heartbeat_interval, now_);
        tree_frame f;
        f.lane = epoch_;
        for (auto const& [rank, c] : kept_)
            if (unsent_.count(c) == 0) {
                unsent_.insert(c);
                context_.send(c, encode_frame(f));
            }
    }

    void fail(error why) {
        if (failure_) return;
        failure_ = std::move(why);
        give_up_at_ = now_ + std::chrono::seconds(1);
        auto const first = context_.actions.size();
        for (int c : roster_.waiting())
            acceptor_.answer(c, {verdict::refused, failure_->what(), 0, {}});
        // Neighbours whose connections are complete may already be reading frames.
        tree_frame f;
        f.what = tree_frame::type::abort;
        f.lane = epoch_;
        f.note = encode_group_failure(*failure_, at_.rank);
        for (auto const& [rank, c] : kept_) context_.send(c, encode_frame(f));
        for (auto i = first; i < context_.actions.size(); ++i)
            if (auto const& a = context_.actions[i]; a.what == type::send)
                unsent_.insert(a.connection);
        acceptor_.close();
        connector_.stop();
        check();
    }
    error too_late() const {
        auto const late = [this](std::string expected, std::string found, std::string remedy) {
            return error(errc::timed_out, {.rank = at_.rank == 0 ? -1 : at_.rank,
                                           .expected = std::move(expected),
                                           .found = std::move(found),
                                           .remedy = std::move(remedy)});
        };
        if (at_.rank == 0)
            return late("all " + std::to_string(at_.size) + " ranks to join",
                        roster_.absent() + " did not join",
                        "check that they are running and can reach rank 0");
        if (kept_.count(at_.parent()) != 0)
            return late("the ranks below this one", roster_.absent() + " did not join",
                        "check that they are running and can reach this host");
        auto const whom =
            to_parent_ ? "rank " + std::to_string(at_.parent()) : std::string("rank 0");
        return late(whom + " to admit this rank",
                    connector_.proven()          ? "it is still waiting for other ranks"
                    : !connector_.last().empty() ? connector_.last()
                    : !id_                       ? std::string("its address is not known")
                                                 : std::string("no answer"),
                    "check that " + whom + " is running and can be reached from here");
    }
    /// Two jobs may have met: the group might consist of ranks of both.
    static error claimed_twice(int rank, const std::string& one, const std::string& other) {
        return {errc::invalid_argument,
                {.rank = rank,
                 .expected = "one process with this rank",
                 .found = "two: " + one + " and " + other,
                 .remedy = "start each rank once; if these are two jobs, give each an id, a "
                           "directory (CAIRN_RENDEZVOUS_DIR) or a name (from_directory) of its "
                           "own"}};
    }
    error no_descriptors(const std::string& why) const {
        return {errc::io,
                {.rank = at_.rank,
                 .expected = "a descriptor for each of up to " + std::to_string(at_.fan_in + 1) +
                             " connections",
                 .found = why,
                 .remedy = "raise the limit of open files (ulimit -n), or lower the fan-in"}};
    }
    static bool is_loopback(const tcp_id& id) {
        return std::all_of(id.addresses.begin(), id.addresses.end(), [](auto const& a) {
            return a.host.starts_with("127.") || a.host == "::1" || a.host == "localhost";
        });
    }

    tree_topology at_;
    time by_;
    std::string process_;
    liveness_options alive_;
    time now_{};
    handshake_context context_;
    handshake_acceptor acceptor_;
    handshake_connector connector_;
    tcp_roster roster_;
    std::optional<tcp_id> id_{};
    std::uint64_t instance_ = 0;
    std::uint64_t epoch_ = 0;
    std::vector<tcp_address> mine_{};
    bool listening_ = false;
    bool to_parent_ = false;
    time look_up_at_ = time::max();
    std::map<int, int> kept_{};  ///< Complete connections, by rank.
    time beat_at_ = time::max();
    /// Connections, one for each heartbeat and message that tells of a failure.
    std::multiset<int> unsent_{};
    time give_up_at_ = time::max();
    std::optional<error> failure_{};
    bool over_ = false;
};

}  // namespace cairn::detail

#endif
