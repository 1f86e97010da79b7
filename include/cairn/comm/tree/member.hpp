// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_MEMBER_HPP
#define CAIRN_COMM_TREE_MEMBER_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/exchange_kind.hpp>
#include <cairn/comm/tree/frame.hpp>
#include <cairn/comm/tree/probe.hpp>
#include <cairn/comm/tree/liveness.hpp>
#include <cairn/comm/tree/routing.hpp>
#include <cairn/comm/tree/topology.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank of a group that talks along a tree: decides, and does no I/O. What it is told (calls,
/// frames, losses, the time) makes frames to post and, in the end, the outcome of the call.
///
/// Every exchange is one way up to rank 0 and one way down: it completes on no rank before every
/// rank has called it, and all ranks hear of one failure.
class tree_member {
public:
    using time = std::chrono::steady_clock::time_point;
    struct post {
        int to = 0;
        std::shared_ptr<const tree_frame> frame{};
    };
    struct outcome {
        std::exception_ptr failure{};
        std::vector<message> result{};  ///< Of gather and all_gather n, of barrier none, else one.
    };

    /// @param epoch  The group's: frames of another are refused.
    tree_member(tree_topology where, std::uint64_t epoch, group_patience patience, time now)
        : at_(where), children_(where.children()), epoch_(epoch), patience_(patience) {
        for (int c : children_) neighbours_.emplace(c, neighbour{now, now, true});
        if (where.rank != 0) neighbours_.emplace(where.parent(), neighbour{now, now, true});
    }

    bool busy() const noexcept { return call_.here; }
    bool broken() const noexcept { return broken_.has_value(); }
    /// Which exchange of the group is under way or next, from 0.
    std::uint64_t round() const noexcept { return round_; }
    void share(std::shared_ptr<const activity> a) { activity_ = std::move(a); }

    /// This rank calls an exchange. @pre `!busy()`
    void start(exchange_kind kind, int root, std::vector<message> in, deadline by, time now) {
        now_ = now;
        auto const wrong = wrong_call(kind, root, in.size(), at_.rank, at_.size);
        if (broken_) return end(wrong ? outcome{std::make_exception_ptr(*wrong), {}} : refusal());
        call_ = {true, kind, root, {}, by, by == no_deadline ? time::duration(0) : by - now};
        for (auto& m : in) call_.in.push_back(std::make_shared<message>(std::move(m)));
        if (wrong) return break_up(*wrong);
        for (auto const& [child, f] : arrived_)
            if (f.kind != kind || f.root != root) return break_up(different(child, f));
        advance();
    }
    /// A frame of a neighbour's has come.
    void received(int from, tree_frame f, time now) {
        heard(from, now);
        if (broken_) return;
        try {
            if (f.epoch != epoch_) wire_reader::fail("a message of another group");
            accept(from, std::move(f), now);
        } catch (const error& e) {
            auto where = e.context();
            where.rank = from;
            break_up(error(e.code(), std::move(where)));
        }
    }
    /// Something of a neighbour's has come, if only a part of a frame.
    void heard(int from, time now) {
        if (auto const it = neighbours_.find(from); it != neighbours_.end()) it->second.heard = now;
    }
    /// A neighbour cannot be reached any more.
    void lost(int peer, const std::string& how) {
        auto const it = neighbours_.find(peer);
        if (it == neighbours_.end() || !it->second.open) return;
        it->second.open = false;
        if (!broken_) break_up(error(errc::rank_failed, {.rank = peer, .found = how}));
    }
    /// The call under way, or the next one, fails, and the group is of no more use to anybody.
    void cancel() {
        if (!broken_)
            break_up(error(errc::cancelled, {.rank = at_.rank, .remedy = "make a new group"}));
    }
    /// This rank takes part in no more exchanges.
    void leave() {
        if (left_) return;
        left_ = true;
        for (auto const& [peer, n] : neighbours_) send(peer, tree_frame::type::leave);
        if (!broken_) break_up(left(at_.rank), false);
    }
    /// The time has come that `wake()` named.
    void tick(time now) {
        now_ = now;
        if (broken_) return;
        for (auto& [peer, n] : neighbours_) {
            if (now - n.heard > patience_.silence) {
                auto const s = std::chrono::duration_cast<std::chrono::seconds>(patience_.silence);
                return lost(peer, "nothing heard of it for " + std::to_string(s.count()) + " s");
            }
            if (now - n.sent >= patience_.beat) send(peer, tree_frame::type::beat);
        }
        if (inquiry_.on() && now >= inquiry_.until()) conclude();
        if (broken_ || !call_.here) return;
        if (judged_by_ && now >= *judged_by_) {
            return break_up(error(errc::timed_out,
                               {.rank = at_.parent(),
                                .expected = "word of who is late",
                                .found = "rank " + std::to_string(at_.parent()) +
                                         " does not answer",
                                .remedy = "make a new group"}));
        }
        if (now < call_.by || late_) return;
        late_ = true;
        auto const given = std::chrono::ceil<std::chrono::milliseconds>(call_.given);
        if (at_.rank == 0) return judge(given);
        // Those further from rank 0 wait longer: who is next to the one that stands still names it.
        judged_by_ = now + patience_.judge + patience_.judge / 4 * (at_.depth() + 1);
        send(at_.parent(), tree_frame::type::late, in_ms(given));
    }
    time wake() const {
        if (broken_) return time::max();
        auto t = time::max();
        for (auto const& [peer, n] : neighbours_)
            t = std::min({t, n.sent + patience_.beat, n.heard + patience_.silence});
        if (inquiry_.on()) t = std::min(t, inquiry_.until());
        if (call_.here && judged_by_) t = std::min(t, *judged_by_);
        if (call_.here && !late_) t = std::min(t, call_.by);
        return t;
    }

    std::vector<post> take_posts() { return std::exchange(posts_, {}); }
    std::optional<outcome> take_outcome() { return std::exchange(outcome_, std::nullopt); }

private:
    using entries = tree_entries;
    struct neighbour {
        time heard;
        time sent;
        bool open;
    };
    struct call {
        bool here = false;
        exchange_kind kind = exchange_kind::barrier;
        int root = 0;
        std::vector<std::shared_ptr<message>> in{};
        deadline by = no_deadline;
        time::duration given{0};  ///< What the deadline was, from the call on.
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
            case abort: {
                wire_reader r(f.note);
                auto const why = decode_failure(r);
                return break_up(error(why.code, why.where), true, from);
            }
            case leave: return lost(from, left(from).context().found);
            case late:
                expect(below);
                if (f.round != round_) return;  // over by now
                if (at_.rank != 0) return send(at_.parent(), late, std::move(f.note));
                return judge(of_ms(f.note));
            case ask:
                expect(!below);
                if (f.round == round_) inquire(of_ms(f.note));
                return;
            case missing:
                expect(below);
                inquiry_.answer(from, decode_missing(f.note));
                if (inquiry_.on() && inquiry_.answered()) conclude();
                return;
            case wait:
                expect(!below);
                if (f.round == round_) wait_longer(of_ms(f.note));
                return;
            case beat: return;
        }
    }

    /// Goes up, or at rank 0 ends, once this rank and all below it have called.
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

    /// Everybody has called: passes on what those below get, and takes what this rank gets.
    void finish(entries all) {
        for (int child : children_) {
            entries theirs;
            for (auto const& e : all)
                if (goes_to(at_, call_.kind, call_.root, child, e.rank)) theirs.push_back(e);
            send(child, tree_frame::type::result, {}, std::move(theirs));
        }
        call_.in.clear();  // what is left in `all` alone can be moved
        auto mine = taken(at_, call_.kind, call_.root, std::move(all));
        if (!mine)
            return break_up(error(errc::corrupt, {.found = "an exchange that lacks a part"}));
        ++round_;
        arrived_.clear();
        late_ = sent_up_ = false;
        judged_by_.reset();
        inquiry_ = {};
        end({nullptr, std::move(*mine)});
    }
    /// Rank 0 finds out who is late.
    void judge(std::chrono::milliseconds given) {
        if (inquiry_.on()) return;
        inquiry_.given = given;
        inquire(patience_.judge);
    }
    void inquire(std::chrono::milliseconds budget) {
        std::vector<missing_rank> found;
        if (!call_.here) {
            missing_rank me{.rank = at_.rank, .answered = true};
            if (activity_) me.is_at(activity_->read());
            found.push_back(std::move(me));
        }
        std::set<int> asked;
        for (int child : children_) {
            if (arrived_.count(child) != 0) continue;
            asked.insert(child);
            send(child, tree_frame::type::ask, in_ms(budget * 3 / 4));
        }
        inquiry_.begin(std::move(asked), std::move(found), now_ + budget);
        if (inquiry_.answered()) conclude();
    }
    void conclude() {
        auto const missing = inquiry_.end();
        if (at_.rank != 0)
            return send(at_.parent(), tree_frame::type::missing, encode_missing(missing));
        if (missing.empty()) return;  // they have called in the meantime
        auto const longer = worth_waiting(missing, inquiry_.given);
        if (longer.count() > 0) return wait_longer(longer);
        break_up(too_late(missing));
    }
    void wait_longer(std::chrono::milliseconds by) {
        for (int child : children_) send(child, tree_frame::type::wait, in_ms(by));
        if (!call_.here) return;
        if (call_.by != no_deadline) call_.by = now_ + by;
        late_ = false;
        judged_by_.reset();
    }
    static message in_ms(std::chrono::milliseconds t) {
        wire_writer w;
        w.u64(static_cast<std::uint64_t>(std::max<std::int64_t>(0, t.count())));
        return std::move(w.out);
    }
    static std::chrono::milliseconds of_ms(const message& note) {
        wire_reader r(note);
        constexpr std::uint64_t year = 365ull * 24 * 3600 * 1000;
        return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(r.u64(), year)));
    }

    /// The group can no longer be used; all are told.
    /// @param heard_from  The neighbour that knows already.
    void break_up(error why, bool tell = true, int heard_from = -1) {
        broken_ = std::move(why);
        wire_writer w;
        encode(w, broken_->as_failure(at_.rank));
        for (auto const& [peer, n] : neighbours_)
            if (tell && peer != heard_from) send(peer, tree_frame::type::abort, w.out);
        if (call_.here) {
            told_ = true;
            end({std::make_exception_ptr(*broken_), {}});
        }
    }
    outcome refusal() {
        // A rank that could not hear of another's end in a call of its own hears of it in the next.
        bool const first = !std::exchange(told_, true) &&
                           broken_->code() == make_error_code(errc::rank_failed);
        if (first) return {std::make_exception_ptr(*broken_), {}};
        return {std::make_exception_ptr(error(errc::poisoned, {.rank = at_.rank,
                                                               .found = broken_->what(),
                                                               .remedy = "make a new group"})),
                {}};
    }
    /// Whether a child's exchange is the one that this rank, or else another child, is in.
    bool agrees(const tree_frame& f) const {
        if (call_.here) return f.kind == call_.kind && f.root == call_.root;
        if (arrived_.empty()) return true;
        auto const& other = arrived_.begin()->second;
        return f.kind == other.kind && f.root == other.root;
    }
    error different(int child, const tree_frame& f) const {
        auto found = "rank " + std::to_string(child) + " in " + name_of(f.kind, f.root);
        if (call_.here)
            found +=
                ", rank " + std::to_string(at_.rank) + " in " + name_of(call_.kind, call_.root);
        for (auto const& [other, g] : arrived_)
            if (other != child && (g.kind != f.kind || g.root != f.root)) {
                found += ", rank " + std::to_string(other) + " in " + name_of(g.kind, g.root);
                break;
            }
        return {errc::invalid_argument,
                {.expected = "all ranks to call the same exchange", .found = std::move(found)}};
    }
    static error left(int rank) {
        return {errc::rank_failed,
                {.rank = rank, .found = "rank " + std::to_string(rank) + " left the group"}};
    }

    void send(int to, tree_frame::type what, message note = {}, entries parts = {}) {
        auto& n = neighbours_.at(to);
        if (!n.open) return;
        auto f = std::make_shared<tree_frame>();
        f->what = what;
        f->kind = call_.kind;
        f->root = std::max(0, call_.root);
        f->epoch = epoch_;
        f->round = round_;
        f->note = std::move(note);
        f->entries = std::move(parts);
        n.sent = std::max(n.sent, now_);
        posts_.push_back({to, std::move(f)});
    }
    void end(outcome o) {
        call_ = {};
        outcome_ = std::move(o);
    }

    tree_topology at_;
    std::vector<int> children_;
    std::uint64_t epoch_;
    group_patience patience_;
    time now_{};
    std::map<int, neighbour> neighbours_{};
    std::uint64_t round_ = 0;
    call call_{};
    std::map<int, tree_frame> arrived_{};  ///< By child: all at and below it have called.
    bool sent_up_ = false;
    bool late_ = false;  ///< Said so, in this round.
    std::optional<time> judged_by_{};
    inquiry inquiry_{};
    std::optional<error> broken_{};
    bool told_ = false;  ///< This rank's caller knows why.
    bool left_ = false;
    std::shared_ptr<const activity> activity_{};
    std::vector<post> posts_{};
    std::optional<outcome> outcome_{};
};

}  // namespace cairn::detail

#endif
