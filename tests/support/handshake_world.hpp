// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_HANDSHAKE_WORLD_HPP
#define CAIRN_TEST_SUPPORT_HANDSHAKE_WORLD_HPP

#include <cairn/comm/detail/tcp/handshake.hpp>
#include <cairn/comm/liveness.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Decides what happens next, where several things can: by a seed, or one possibility after the
/// other until all were tried.
class choices {
public:
    static choices by_seed(unsigned seed) {
        choices c;
        c.random_.emplace(seed);
        return c;
    }
    static choices all() { return {}; }

    std::size_t pick(std::size_t n) {
        if (random_) return std::uniform_int_distribution<std::size_t>(0, n - 1)(*random_);
        if (at_ == path_.size()) path_.push_back({0, n});
        return path_[at_++].first;
    }
    /// @return Whether there is another way to try, from the beginning.
    bool next() {
        at_ = 0;
        while (!path_.empty() && path_.back().first + 1 == path_.back().second) path_.pop_back();
        if (path_.empty()) return false;
        ++path_.back().first;
        return true;
    }

private:
    std::optional<std::mt19937> random_{};
    std::vector<std::pair<std::size_t, std::size_t>> path_{};
    std::size_t at_ = 0;
};

/// Processes that shake hands, in one thread, with connections that keep order and a clock of
/// their own. An address is "r<process>", or "r<process>.nowhere" (nobody answers) or
/// "r<process>.mute" (somebody accepts, and says nothing).
class handshake_world {
public:
    using handshake = cairn::detail::tcp_handshake;
    using message = cairn::message;
    using time = handshake::time;

    explicit handshake_world(choices& c, cairn::tcp_id rank_0 = {{{"r0", 1}}, {}})
        : choices_(c), id_(std::move(rank_0)) {}

    struct process {
        std::unique_ptr<handshake> decides{};
        int rank = 0;
        bool begun = false;
        bool dead = false;
        bool listens = false;  ///< Its socket is open: whoever connects waits in its queue.
        bool accepts = false;
        bool knows_id = true;  ///< Otherwise `look_up` finds nothing.
        int descriptors = 1 << 20;
        std::map<int, int> links{};  ///< By its number of the connection.
        std::map<int, int> kept{};   ///< Rank -> link.
        std::size_t most_links = 0;
    };
    struct link {
        int from = -1, to = -1;                ///< Processes; -1: a stranger.
        int number_from = -1, number_to = -1;  ///< -1: not accepted yet.
        std::deque<message> to_from{}, to_to{};
        bool closed_by_from = false, closed_by_to = false;
        bool told_from = false, told_to = false;  ///< That the other side has closed it.
        bool connected = false;
        bool nowhere = false, mute = false;
        bool broken = false;
    };

    std::vector<process> all{};
    std::deque<link> links{};
    time now{std::chrono::hours(1)};
    std::uint64_t messages = 0;

    /// @return Its number among processes.
    int add(int rank, int size, int fan_in, std::chrono::milliseconds timeout,
            std::optional<cairn::tcp_id> id = {}, const cairn::liveness_options& alive = {}) {
        auto const n = static_cast<int>(all.size());
        process p;
        p.rank = rank;
        auto const random = std::make_shared<std::mt19937_64>(static_cast<unsigned>(n) + 1);
        p.decides = std::make_unique<handshake>(
            cairn::detail::tree_topology{rank, size, fan_in}, now + timeout,
            [random] { return (*random)(); }, std::string(), alive);
        p.listens = rank == 0;
        ids_.push_back(id.value_or(id_));
        all.push_back(std::move(p));
        return n;
    }
    void start(int p) {
        all[index(p)].begun = true;
        event(p, [&](auto& h) { h.start(now); });
    }
    /// The process ends at once; its connections close.
    void kill(int p) {
        all[index(p)].dead = true;
        all[index(p)].listens = false;
        for (auto& l : links) {
            if (l.from == p) l.closed_by_from = true;
            if (l.to == p) l.closed_by_to = true;
        }
    }
    /// Somebody who is no rank connects to a process.
    int stranger(int to) {
        auto& l = links.emplace_back();
        l.to = to;
        l.connected = true;
        return static_cast<int>(links.size()) - 1;
    }
    /// A connection breaks: both ends hear of it, and what was under way is lost.
    void cut(int l) {
        auto& at = links[index(l)];
        at.broken = true;
        at.to_from.clear();
        at.to_to.clear();
    }

    /// One thing that can happen happens. @return Whether there was any.
    bool step() {
        for (; known_ < links.size(); ++known_) active_.push_back(known_);
        std::erase_if(active_, [this](std::size_t i) { return is_over(i); });
        possible_.clear();
        for (auto const i : active_) collect(i, possible_);
        if (possible_.empty()) return false;
        auto const now_it_happens = possible_[choices_.pick(possible_.size())];
        now_it_happens();
        return true;
    }
    /// Until nothing can happen at this time.
    void settle() {
        while (step()) {
        }
    }
    /// Until all that have begun and live have ended, or `until`.
    void run(std::chrono::milliseconds most) {
        auto const end = now + most;
        for (;;) {
            settle();
            auto next = time::max();
            bool over = true;
            for (auto& p : all) {
                if (!p.begun || p.dead || p.decides->over()) continue;
                over = false;
                next = std::min(next, p.decides->wake());
            }
            if (over || now >= end) return;
            now = std::min(end, std::max(next, now + std::chrono::milliseconds(1)));
            for (int p = 0; p < static_cast<int>(all.size()); ++p)
                if (running(p) && all[index(p)].decides->wake() <= now)
                    event(p, [&](auto& h) { h.tick(now); });
        }
    }
    std::string failure(int p) {
        auto const& f = all[index(p)].decides->failure();
        return f ? f->what() : "";
    }
    bool well(int p) { return all[index(p)].decides->over() && failure(p).empty(); }

private:
    static std::size_t index(int i) { return static_cast<std::size_t>(i); }
    bool running(int p) {
        return p >= 0 && all[index(p)].begun && !all[index(p)].dead &&
               !all[index(p)].decides->over();
    }

    template <class F>
    void event(int p, F&& f) {
        auto& me = all[index(p)];
        f(*me.decides);
        for (;;) {
            auto actions = me.decides->take_actions();
            if (actions.empty()) break;
            for (auto& a : actions) perform(p, a);
        }
        me.most_links = std::max(me.most_links, me.links.size());
        if (!me.decides->over()) return;
        // What is not kept is closed.
        for (auto const& [number, l] : std::exchange(me.links, {})) {
            bool const kept = std::any_of(me.kept.begin(), me.kept.end(),
                                          [l = l](auto const& k) { return k.second == l; });
            if (!kept || !failure(p).empty()) close(p, l);
        }
        me.listens = false;
        // Whoever waits to be accepted is turned away by the system.
        for (std::size_t i = 0; i < links.size(); ++i)
            if (links[i].to == p && links[i].number_to < 0) links[i].closed_by_to = true;
    }
    void perform(int p, cairn::detail::handshake_action& a) {
        using type = cairn::detail::handshake_action::type;
        auto& me = all[index(p)];
        auto& h = *me.decides;
        switch (a.what) {
            case type::look_up:
                h.found(me.knows_id ? std::optional(ids_[index(p)]) : std::nullopt, now);
                break;
            case type::listen:
                me.listens = true;
                h.listening({{"r" + std::to_string(p), 1}}, now);
                break;
            case type::accept: me.accepts = true; break;
            case type::do_not: me.accepts = false; break;
            case type::connect: {
                if (static_cast<int>(me.links.size()) >= me.descriptors) {
                    h.failed(a.connection, "Too many open files", true, now);
                    break;
                }
                auto& l = links.emplace_back();
                l.from = p;
                l.to = target(a.to.host);
                l.number_from = a.connection;
                l.mute = a.to.host.ends_with(".mute");
                l.nowhere = a.to.host.ends_with(".nowhere");
                me.links[a.connection] = static_cast<int>(links.size()) - 1;
                h.resolved(a.connection, now);
                break;
            }
            case type::send: {
                auto const it = me.links.find(a.connection);
                if (it == me.links.end()) break;
                auto& l = links[index(it->second)];
                if (l.broken) break;
                (l.from == p && l.number_from == a.connection ? l.to_to : l.to_from)
                    .push_back(std::move(a.bytes));
                h.sent(a.connection, now);
                break;
            }
            case type::close: {
                auto const it = me.links.find(a.connection);
                if (it == me.links.end()) break;
                close(p, it->second);
                me.links.erase(it);
                break;
            }
            case type::keep:
                if (auto const it = me.links.find(a.connection); it != me.links.end()) {
                    me.kept[a.rank] = it->second;
                    h.kept(a.connection, a.rank, now);
                }
                break;
        }
    }
    void close(int p, int l) {
        auto& at = links[index(l)];
        (at.from == p ? at.closed_by_from : at.closed_by_to) = true;
    }
    static int target(const std::string& host) { return std::stoi(host.substr(1)); }

    bool is_kept(int p, std::size_t l) {
        auto const& k = all[index(p)].kept;
        return std::any_of(k.begin(), k.end(),
                           [&](auto const& e) { return e.second == static_cast<int>(l); });
    }
    /// Nothing more can happen to it.
    bool is_over(std::size_t i) {
        auto const& l = links[i];
        auto const gone = [&](int p, bool closed, bool told) {
            return p < 0 || closed || told || all[index(p)].dead || is_kept(p, i);
        };
        return gone(l.from, l.closed_by_from, l.told_from) &&
               gone(l.to, l.closed_by_to, l.told_to) && (l.number_to >= 0 || l.closed_by_to);
    }
    void collect(std::size_t i, std::vector<std::function<void()>>& possible) {
        auto& l = links[i];
        auto const n = static_cast<int>(i);
        // The connection is made, or refused.
        if (!l.connected) {
            if (running(l.from) && !l.closed_by_from && !l.nowhere)
                possible.push_back([this, n] { connect(n); });
            return;
        }
        // It is accepted: also one that was closed meanwhile.
        if (running(l.to) && l.number_to < 0 && !l.mute && !l.closed_by_to && !l.broken &&
            all[index(l.to)].accepts) {
            possible.push_back([this, n] {
                auto const to = links[index(n)].to;
                auto& p = all[index(to)];
                if (static_cast<int>(p.links.size()) >= p.descriptors) {
                    event(to, [&](auto& h) { h.not_accepted("Too many open files", true, now); });
                    return;
                }
                event(to, [&](auto& h) {
                    auto const number = h.accepted("stranger or rank", now);
                    links[index(n)].number_to = number;
                    all[index(to)].links[number] = n;
                });
            });
        }
        if (running(l.to) && l.number_to >= 0 && !l.closed_by_to && !is_kept(l.to, i)) {
            if (!l.to_to.empty())
                possible.push_back([this, n] { deliver(n, true); });
            else if ((l.closed_by_from || l.broken) && !l.told_to)
                possible.push_back([this, n] { tell(n, true); });
        }
        if (running(l.from) && !l.closed_by_from && !is_kept(l.from, i)) {
            if (!l.to_from.empty())
                possible.push_back([this, n] { deliver(n, false); });
            else if ((l.closed_by_to || l.broken) && !l.told_from)
                possible.push_back([this, n] { tell(n, false); });
        }
    }
    void connect(int n) {
        auto& l = links[index(n)];
        auto const& to = all[index(l.to)];
        l.connected = true;
        auto const from = l.from, number = l.number_from;
        if (l.mute || (to.listens && !to.dead))
            return event(from, [&](auto& h) { h.connected(number, now); });
        l.closed_by_to = l.told_from = true;
        all[index(from)].links.erase(number);
        event(from, [&](auto& h) { h.failed(number, "Connection refused", false, now); });
    }
    void deliver(int n, bool to_to) {
        auto& l = links[index(n)];
        auto& queue = to_to ? l.to_to : l.to_from;
        auto const m = std::move(queue.front());
        queue.pop_front();
        ++messages;
        auto const number = to_to ? l.number_to : l.number_from;
        auto const p = to_to ? l.to : l.from;
        event(p, [&](auto& h) {
            auto const head = cairn::detail::handshake_head_bytes;
            try {
                if (m.size() < head) cairn::detail::wire_reader::fail("too short");
                auto const size = cairn::detail::decode_handshake_head(std::span(m).first(head));
                if (size != m.size() - head) cairn::detail::wire_reader::fail("another size");
            } catch (const cairn::error& e) {
                return h.misread(number, e.what(),
                                 e.code() == cairn::make_error_code(cairn::errc::unsupported), now);
            }
            h.received(number, std::span(m).subspan(head), now);
        });
    }
    void tell(int n, bool to_to) {
        auto& l = links[index(n)];
        (to_to ? l.told_to : l.told_from) = true;
        auto const number = to_to ? l.number_to : l.number_from;
        auto const p = to_to ? l.to : l.from;
        all[index(p)].links.erase(number);
        event(p, [&](auto& h) { h.lost(number, "it closed the connection", now); });
    }

    choices& choices_;
    cairn::tcp_id id_;
    std::vector<cairn::tcp_id> ids_{};
    std::vector<std::size_t> active_{};
    std::size_t known_ = 0;
    std::vector<std::function<void()>> possible_{};
};

inline cairn::tcp_id id_of(std::uint8_t secret, std::vector<std::string> hosts = {"r0"}) {
    cairn::tcp_id id;
    for (auto& h : hosts) id.addresses.push_back({h, 1});
    id.secret.fill(secret);
    return id;
}
/// Processes that are ranks 0 to n - 1, in this order.
inline void add_all(handshake_world& w, int n, int fan_in,
                    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    for (int r = 0; r < n; ++r) w.add(r, n, fan_in, timeout);
}
/// Every rank is connected with its neighbours in the tree, and with nobody else, and all agree on
/// the group's number.
inline std::string not_joined(handshake_world& w, int n, int fan_in) {
    for (int r = 0; r < n; ++r) {
        auto const& me = w.all[static_cast<std::size_t>(r)];
        auto const rank = "rank " + std::to_string(r) + " of " + std::to_string(n) + ": ";
        if (!w.well(r)) return rank + w.failure(r);
        if (me.decides->epoch() != w.all[0].decides->epoch()) return rank + "another number";
        cairn::detail::tree_topology const t{r, n, fan_in};
        auto const children = t.children();
        std::set<int> wanted(children.begin(), children.end()), kept;
        if (r != 0) wanted.insert(t.parent());
        for (auto const& [peer, l] : me.kept) {
            kept.insert(peer);
            auto const& other = w.all[static_cast<std::size_t>(peer)].kept;
            auto const& at = w.links[static_cast<std::size_t>(l)];
            if (other.count(r) == 0 || other.at(r) != l || at.closed_by_from || at.closed_by_to)
                return rank + "not connected with rank " + std::to_string(peer);
        }
        if (kept != wanted) return rank + "other neighbours";
    }
    return {};
}

}  // namespace support

#endif
