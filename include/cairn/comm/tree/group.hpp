// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_GROUP_HPP
#define CAIRN_COMM_TREE_GROUP_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/exchange_kind.hpp>
#include <cairn/comm/tree/lanes.hpp>
#include <cairn/error.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One group's use of a lane, and its share in the engine that carries it.
///
/// `Engine` has
/// - `where()`, a `tree_topology`;
/// - `run(f)`, which calls `f(tree_lanes&, time now)` in the engine's own context, at once or
///   later, then sends what was posted and calls what has ended;
/// - `attach()` and `detach() noexcept`, which count seats; after the last one it ends.
template <class Engine>
class tree_seat {
public:
    tree_seat() = default;
    /// @param lane  0: none yet.
    tree_seat(std::shared_ptr<Engine> e, std::uint64_t lane) : engine_(std::move(e)), lane_(lane) {
        engine_->attach();
    }
    tree_seat(tree_seat&& other) noexcept
        : engine_(std::move(other.engine_)), lane_(std::exchange(other.lane_, 0)) {}
    tree_seat& operator=(tree_seat&& other) noexcept {
        tree_seat old(std::move(*this));
        engine_ = std::move(other.engine_);
        lane_ = std::exchange(other.lane_, 0);
        return *this;
    }
    ~tree_seat() { leave(); }

    const std::shared_ptr<Engine>& engine() const noexcept { return engine_; }
    std::uint64_t lane() const noexcept { return lane_; }
    void take(std::uint64_t lane) noexcept { lane_ = lane; }

    void leave() noexcept {
        auto const e = std::move(engine_);
        engine_ = nullptr;
        if (!e) return;
        if (auto const lane = std::exchange(lane_, 0); lane != 0) {
            try {
                e->run([lane](tree_lanes& l, auto now) { l.leave(lane, now); });
            } catch (...) {  // no memory: the others notice when the engine ends
            }
        }
        e->detach();
    }

private:
    std::shared_ptr<Engine> engine_{};
    std::uint64_t lane_ = 0;
};

/// The operations of a BackgroundCommunicator for a `Group` over an `Engine`; see `tree_seat`.
/// Group derives from this, and can be made of a `tree_seat<Engine>`.
template <class Group, class Engine>
class tree_group {
public:
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
        start(exchange_kind::gather, root, one(std::move(m)), d, all_of(std::move(done)));
    }
    void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
        if (rank_ != root) ms.clear();
        start(exchange_kind::scatter, root, std::move(ms), d, first_of(std::move(done)));
    }
    void broadcast(message m, int root, deadline d, completion<message> done) {
        if (rank_ != root) m.clear();
        start(exchange_kind::broadcast, root, one(std::move(m)), d, first_of(std::move(done)));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        start(exchange_kind::all_gather, 0, one(std::move(m)), d, all_of(std::move(done)));
    }
    /// See `BackgroundCommunicator`. Costs one exchange: the new group uses the same connections.
    void duplicate(deadline d, completion<Group> done) {
        struct pending {
            completion<Group> done;
            tree_seat<Engine> seat;  ///< Taken now: this group may end before the exchange does.
        };
        auto seat = seat_.engine() ? tree_seat<Engine>(seat_.engine(), 0) : tree_seat<Engine>();
        auto const p = std::make_shared<pending>(pending{std::move(done), std::move(seat)});
        start(exchange_kind::duplicate, 0, {}, d, [p](tree_lanes::outcome o) {
            if (o.failure) return p->done.fail(std::move(o.failure));
            p->seat.take(o.lane);
            p->done(Group(std::move(p->seat)));
        });
    }
    /// What this rank works on, for those who wait for it. Null: unknown.
    void share(std::shared_ptr<const activity> a) {
        if (seat_.engine())
            seat_.engine()->run([lane = seat_.lane(), a = std::move(a)](tree_lanes& l, auto) {
                l.share(lane, a);
            });
    }
    /// From any thread: the exchange under way, or the next one, fails on all ranks, and the group
    /// is unusable afterwards.
    void cancel() noexcept {
        auto const e = seat_.engine();
        if (e) e->run([lane = seat_.lane()](tree_lanes& l, auto now) { l.cancel(lane, now); });
    }

protected:
    explicit tree_group(tree_seat<Engine> s)
        : rank_(s.engine()->where().rank), size_(s.engine()->where().size), seat_(std::move(s)) {}

    /// This rank takes part in no more exchanges; those under way fail.
    void leave() noexcept { seat_.leave(); }

private:
    void start(exchange_kind k, int root, std::vector<message> in, deadline d,
               tree_lanes::ended done) {
        auto const e = seat_.engine();
        if (!e)
            return done({std::make_exception_ptr(
                             error(errc::invalid_argument,
                                   {.rank = rank_,
                                    .expected = "a group",
                                    .found = "one that this rank has left, or that was moved from",
                                    .remedy = "make a new group"})),
                         {}, 0});
        e->run([lane = seat_.lane(), k, root, in = std::move(in), d,
                done = std::move(done)](tree_lanes& l, auto now) mutable {
            l.start(lane, k, root, std::move(in), d, std::move(done), now);
        });
    }
    static std::vector<message> one(message m) {
        std::vector<message> v;
        v.push_back(std::move(m));
        return v;
    }
    static tree_lanes::ended all_of(completion<std::vector<message>> done) {
        auto const to = std::make_shared<completion<std::vector<message>>>(std::move(done));
        return [to](tree_lanes::outcome o) {
            if (o.failure) return to->fail(std::move(o.failure));
            (*to)(std::move(o.result));
        };
    }
    static tree_lanes::ended first_of(completion<message> done) {
        auto const to = std::make_shared<completion<message>>(std::move(done));
        return [to](tree_lanes::outcome o) {
            if (o.failure) return to->fail(std::move(o.failure));
            (*to)(std::move(o.result.front()));
        };
    }

    int rank_;
    int size_;
    tree_seat<Engine> seat_;
};

}  // namespace cairn::detail

#endif
