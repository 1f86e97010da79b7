// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_MEMBER_HPP
#define CAIRN_COMM_DETAIL_TREE_MEMBER_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/exchange_kind.hpp>
#include <cairn/comm/detail/tree/frame.hpp>
#include <cairn/comm/detail/tree/group_failure.hpp>
#include <cairn/comm/detail/tree/neighbours.hpp>
#include <cairn/comm/detail/tree/probe.hpp>
#include <cairn/comm/detail/tree/routing.hpp>
#include <cairn/comm/detail/tree/topology.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank of one lane of a group that exchanges along a tree: a state machine without I/O. Calls,
/// frames, losses and the time are its input; frames to post and the outcome of the call its
/// output.
///
/// Every exchange passes up to rank 0 once and down once: it completes on no rank before every rank
/// has called it, and all ranks receive the same failure.
class tree_member {
public:
    using time = std::chrono::steady_clock::time_point;
    struct post {
        int to = 0;
        std::shared_ptr<tree_frame> frame{};  ///< A sole owner may move it out.
    };
    struct outcome {
        std::exception_ptr failure{};
        std::vector<message> result{};  ///< n for gather and all_gather, 0 for duplicate, else one.
    };

    /// @param lane  Frames of other lanes are refused.
    tree_member(tree_topology where, std::uint64_t lane, const liveness_options& o, time now)
        : at_(where), children_(where.children()), lane_(lane), near_(where, o, now), now_(now),
          ended_(now) {}

    bool broken() const noexcept { return broken_.has_value(); }
    /// Index of the exchange under way or next on the lane, from 0.
    std::uint64_t round() const noexcept { return round_; }
    void share(std::shared_ptr<const activity> a) { activity_ = std::move(a); }

    /// Starts an exchange on this rank. @pre none is under way
    void start(exchange_kind kind, int root, std::vector<message> in, deadline by, time now) {
        now_ = now;
        auto const wrong = wrong_call(kind, root, in.size(), at_.rank, at_.size);
        if (broken_) return end(wrong ? outcome{std::make_exception_ptr(*wrong), {}} : refusal());
        call_ = {true, kind, root, {}, by, by == no_deadline ? time::duration(0) : by - now};
        excused_ = false;
        for (auto& m : in) call_.in.push_back(std::make_shared<message>(std::move(m)));
        if (wrong) return break_up(*wrong);
        for (auto const& [child, f] : arrived_)
            if (f.kind != kind || f.root != root) return break_up(different(child, f));
        advance();
    }
    /// Handles a frame from a neighbour.
    void received(int from, tree_frame f, time now) {
        heard(from, now);
        if (broken_) return;
        try {
            if (f.lane != lane_) wire_reader::fail("a message of another group");
            accept(from, std::move(f), now);
        } catch (const error& e) {
            auto where = e.context();
            where.rank = from;
            break_up(error(e.code(), std::move(where)));
        }
    }
    /// Something was received from a neighbour, possibly only a part of a frame.
    void heard(int from, time now) { near_.heard(from, now); }
    /// A part of a long frame was sent to or received from a neighbour.
    void moved(int peer, time now) { near_.moved(peer, now); }
    /// A neighbour is no longer reachable.
    void lost(int peer, const std::string& how) {
        if (!near_.knows(peer) || !near_.open(peer)) return;
        near_.close(peer);
        if (!broken_) break_up(error(errc::rank_failed, {.rank = peer, .found = how}));
    }
    /// Fails the call under way, or the next one, and makes the lane unusable for all ranks.
    void fail(const error& why) {
        if (!broken_) break_up(why);
    }
    void cancel() {
        fail(error(errc::cancelled, {.rank = at_.rank, .remedy = "make a new group"}));
    }
    /// Takes part in no more exchanges.
    void leave() {
        if (std::exchange(left_, true)) return;
        // Neighbours that have left are notified too: they track which neighbours may still send.
        for (int peer : near_.ranks()) send(peer, tree_frame::type::leave, {}, {}, true);
        if (!broken_) break_up(left(at_.rank), false);
    }
    /// Called when this process was stopped: all waits are extended by that time. The others may
    /// have been stopped too, and the last may resume `peer_timeout` after the first: that is added
    /// once for each exchange.
    /// @param how_long  The time since a tick was due; the stop began at most one heartbeat before
    ///                  that.
    void stood_still(time::duration how_long, time now) {
        using std::chrono::ceil, std::chrono::milliseconds;
        near_.stood_still(how_long, now);
        ended_ = std::min(now, ended_ + how_long);
        auto more = ceil<milliseconds>(how_long);
        if (!std::exchange(excused_, true)) {
            resumed_ = now;
            auto const& o = near_.options();
            bool const silence_ends = o.peer_timeout != no_timeout;
            more += silence_ends ? o.peer_timeout : ceil<milliseconds>(call_.given);
            if (o.heartbeat_interval != no_timeout) more += o.heartbeat_interval;
        }
        if (call_.here && call_.by != no_deadline) call_.by = deadline_after(more, call_.by);
        if (verdict_by_) verdict_by_ = deadline_after(more, *verdict_by_);
        probe_.wait_longer(more);
    }
    /// Called when the time returned by `wake()` has passed.
    void tick(time now) {
        now_ = now;
        if (broken_) return;
        if (auto const peer = near_.silent(now)) {
            auto const s =
                std::chrono::duration_cast<std::chrono::seconds>(near_.options().peer_timeout);
            return lost(*peer, "rank " + std::to_string(*peer) + ": nothing received from it for " +
                                   std::to_string(s.count()) + " s");
        }
        for (int peer : near_.due(now)) send(peer, tree_frame::type::heartbeat);
        if (probe_.on() && now >= probe_.until()) conclude();
        if (broken_ || !call_.here) return;
        if (auto const idle = near_.moving(at_.parent(), now, call_.given)) {
            // The message that this rank waits for may be in transit.
            if (now >= call_.by) call_.by = now + (call_.given - *idle);
            if (verdict_by_ && now >= *verdict_by_) verdict_by_ = now + (call_.given - *idle);
        }
        if (verdict_by_ && now >= *verdict_by_) {
            return break_up(
                error(errc::timed_out,
                      {.rank = at_.parent(),
                       .expected = "to learn which ranks are late",
                       .found = "rank " + std::to_string(at_.parent()) + " does not answer",
                       .remedy = "make a new group"}));
        }
        if (now < call_.by || late_) return;
        late_ = true;
        auto const given = std::chrono::ceil<std::chrono::milliseconds>(call_.given);
        if (at_.rank == 0) return find_late(given);
        // Ranks further from rank 0 wait longer, so that the neighbour of the stuck rank names it.
        auto const probe = std::min(near_.options().probe_timeout, very_long);
        verdict_by_ = deadline_after(probe + probe / 4 * (at_.depth() + 1), now);
        send(at_.parent(), tree_frame::type::late, in_ms(given));
    }
    time wake() const {
        if (broken_) return time::max();
        auto t = near_.wake();
        if (probe_.on()) t = std::min(t, probe_.until());
        if (call_.here && verdict_by_) t = std::min(t, *verdict_by_);
        if (call_.here && !late_) t = std::min(t, call_.by);
        return t;
    }

    std::vector<post> take_posts() { return std::exchange(posts_, {}); }
    std::optional<outcome> take_outcome() { return std::exchange(outcome_, std::nullopt); }

private:
    /// What `no_timeout` means where times are added up.
    static constexpr std::chrono::milliseconds very_long = std::chrono::hours(24 * 365);
    using entries = tree_entries;
    struct call {
        bool here = false;
        exchange_kind kind = exchange_kind::gather;
        int root = 0;
        std::vector<std::shared_ptr<message>> in{};
        deadline by = no_deadline;
        time::duration given{0};  ///< Time from the call to its deadline.
    };

    void accept(int from, tree_frame f, time now) {
        now_ = now;
        using enum tree_frame::type;
        bool const below = from != at_.parent();
        auto const expect = [](bool ok) {
            if (!ok) wire_reader::fail("a message out of order");
        };
        switch (f.what) {
            case arrive: {
                expect(below && f.round == round_ && arrived_.count(from) == 0);
                bool const same = agrees(f);
                auto const& kept = arrived_.emplace(from, std::move(f)).first->second;
                if (!same) return break_up(different(from, kept));
                return advance();
            }
            case result:
                expect(!below && f.round == round_ && sent_up_);
                return finish(std::move(f.entries));
            case abort: return break_up(decode_group_failure(f.note), true, from);
            case leave: return lost(from, left(from).context().found);
            case late: {
                expect(below);
                if (f.round != round_) return;  // it has ended here; its result is being sent
                auto const given = of_ms(f.note);
                if (at_.rank == 0) return find_late(given);
                if (near_.moving(at_.parent(), now, given))
                    return send(from, wait, std::move(f.note));
                return send(at_.parent(), late, std::move(f.note));
            }
            case probe:
                expect(!below);
                if (f.round == round_) ask(of_ms(f.note));
                return;
            case missing:
                expect(below);
                probe_.answer(from, decode_missing(f.note));
                if (probe_.on() && probe_.answered()) conclude();
                return;
            case wait:
                expect(!below);
                if (f.round == round_) wait_longer(of_ms(f.note));
                return;
            case heartbeat:
            case close: return;
        }
    }

    /// Once this rank and all below it have called: sends up, or at rank 0 ends the exchange.
    void advance() {
        if (!call_.here || arrived_.size() != children_.size()) return;
        auto up = sent_up(at_, call_.kind, call_.root, call_.in);
        for (auto& [child, f] : arrived_)
            std::move(f.entries.begin(), f.entries.end(), std::back_inserter(up));
        if (at_.rank == 0) return finish(std::move(up));
        if (sent_up_) return;
        sent_up_ = true;
        send(at_.parent(), tree_frame::type::arrive, {}, std::move(up));
    }
    /// All ranks have called: passes results to the ranks below, and takes this rank's.
    void finish(entries all) {
        for (int child : children_) {
            entries theirs;
            for (auto const& e : all)
                if (goes_to(at_, call_.kind, call_.root, child, e.rank)) theirs.push_back(e);
            send(child, tree_frame::type::result, {}, std::move(theirs));
        }
        call_.in.clear();  // bytes owned only by `all` can then be moved
        auto mine = taken(at_, call_.kind, call_.root, std::move(all));
        if (!mine)
            return break_up(error(errc::corrupt, {.found = "an exchange that lacks a part"}));
        ++round_;
        arrived_.clear();
        late_ = sent_up_ = excused_ = false;
        verdict_by_.reset();
        probe_ = {};
        ended_ = now_;
        end({nullptr, std::move(*mine)});
    }

    /// On rank 0: determines which ranks are late.
    void find_late(std::chrono::milliseconds given) {
        if (probe_.on()) return;
        probe_.given = given;
        ask(near_.options().probe_timeout);
    }
    void ask(std::chrono::milliseconds budget) {
        std::vector<missing_rank> found;
        if (!call_.here) {
            missing_rank me{.rank = at_.rank, .answered = true};
            me.idle = missing_rank::in_ms(now_ - ended_);
            if (activity_) me.works_on(activity_->read());
            // Resuming after a stop is progress: the work of this rank may have waited for others.
            if (resumed_) me.idle = std::min(me.idle, missing_rank::in_ms(now_ - *resumed_));
            found.push_back(std::move(me));
        }
        std::set<int> asked;
        for (int child : children_) {
            if (arrived_.count(child) != 0) continue;
            asked.insert(child);
            send(child, tree_frame::type::probe, in_ms(budget / 4 * 3));
        }
        probe_.begin(std::move(asked), std::move(found), deadline_after(budget, now_));
        if (probe_.answered()) conclude();
    }
    void conclude() {
        auto missing = probe_.end([this](int child) { return unanswered(child); });
        if (at_.rank != 0)
            return send(at_.parent(), tree_frame::type::missing,
                        encode_missing(std::move(missing)));
        if (missing.empty()) return wait_longer(probe_.given);  // they have called in the meantime
        auto const longer = worth_waiting(missing, probe_.given);
        if (longer.count() > 0) return wait_longer(longer);
        break_up(too_late(missing));
    }
    /// Its answer may be queued behind a long message; it counts as active while that moves.
    missing_rank unanswered(int child) const {
        missing_rank m{.rank = child};
        auto const within = std::min(near_.options().peer_timeout, very_long);
        if (auto const idle = near_.moving(child, now_, within)) {
            m.answered = true;
            m.phase = "a long message";
            m.idle = missing_rank::in_ms(*idle);
        }
        return m;
    }
    void wait_longer(std::chrono::milliseconds by) {
        for (int child : children_) send(child, tree_frame::type::wait, in_ms(by));
        if (!call_.here) return;
        if (call_.by != no_deadline) call_.by = deadline_after(by, now_);
        late_ = false;
        verdict_by_.reset();
    }
    static message in_ms(std::chrono::milliseconds t) {
        wire_writer w;
        w.u64(static_cast<std::uint64_t>(std::max<std::int64_t>(0, t.count())));
        return w.take();
    }
    static std::chrono::milliseconds of_ms(const message& note) {
        wire_reader r(note);
        constexpr std::uint64_t year = 365ull * 24 * 3600 * 1000;
        return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(r.u64(), year)));
    }

    /// Makes the lane unusable and notifies all neighbours.
    /// @param heard_from  The neighbour that already knows.
    void break_up(error why, bool tell = true, int heard_from = -1) {
        broken_ = std::move(why);
        if (tell) {
            auto const note = encode_group_failure(*broken_, at_.rank);
            for (int peer : near_.ranks())
                if (peer != heard_from) send(peer, tree_frame::type::abort, note);
        }
        if (call_.here) {
            told_ = true;
            end({std::make_exception_ptr(*broken_), {}});
        }
    }
    outcome refusal() {
        // A rank that had no call under way gets the cause in its next one.
        bool const first = !std::exchange(told_, true) && is_news(*broken_);
        return {std::make_exception_ptr(first ? *broken_ : poisoned(*broken_, at_.rank)), {}};
    }
    /// Whether a child's exchange matches this rank's or, if this rank has not called, another
    /// child's.
    bool agrees(const tree_frame& f) const {
        if (call_.here) return f.kind == call_.kind && f.root == call_.root;
        if (arrived_.empty()) return true;
        auto const& other = arrived_.begin()->second;
        return f.kind == other.kind && f.root == other.root;
    }
    error different(int child, const tree_frame& f) const {
        auto const in = [](int rank, exchange_kind k, int root) {
            return "rank " + std::to_string(rank) + " in " + name_of(k, root);
        };
        auto found = in(child, f.kind, f.root);
        if (call_.here) found += ", " + in(at_.rank, call_.kind, call_.root);
        for (auto const& [other, g] : arrived_)
            if (other != child && (g.kind != f.kind || g.root != f.root)) {
                found += ", " + in(other, g.kind, g.root);
                break;
            }
        return {errc::invalid_argument,
                {.expected = "all ranks to call the same exchange", .found = std::move(found)}};
    }

    void send(int to, tree_frame::type what, message note = {}, entries parts = {},
              bool closed_too = false) {
        if (!closed_too && !near_.open(to)) return;
        auto f = std::make_shared<tree_frame>();
        f->what = what;
        f->kind = call_.kind;
        f->root = std::max(0, call_.root);
        f->lane = lane_;
        f->round = round_;
        f->note = std::move(note);
        f->entries = std::move(parts);
        near_.sent(to, now_);
        posts_.push_back({to, std::move(f)});
    }
    void end(outcome o) {
        call_ = {};
        outcome_ = std::move(o);
    }

    tree_topology at_;
    std::vector<int> children_;
    std::uint64_t lane_;
    tree_neighbours near_;
    time now_;
    time ended_;  ///< End of the last exchange; initially the creation of the lane.
    std::optional<time> resumed_{};  ///< When this process last resumed after a stop …
    bool excused_ = false;           ///< … which is noted once, before the call and within it.
    std::uint64_t round_ = 0;
    call call_{};
    std::map<int, tree_frame> arrived_{};  ///< By child: all at and below it have called.
    bool sent_up_ = false;
    bool late_ = false;                 ///< Reported late in this round …
    std::optional<time> verdict_by_{};  ///< … and the deadline for the verdict.
    tree_probe probe_{};
    std::optional<error> broken_{};
    bool told_ = false;  ///< This rank's caller has received the cause.
    bool left_ = false;
    std::shared_ptr<const activity> activity_{};
    std::vector<post> posts_{};
    std::optional<outcome> outcome_{};
};

}  // namespace cairn::detail

#endif
