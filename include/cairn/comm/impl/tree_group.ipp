// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_TREE_GROUP_IPP
#define CAIRN_COMM_IMPL_TREE_GROUP_IPP

#include <cairn/comm/detail/tree/group.hpp>

#include <cairn/comm/detail/exchange_kind.hpp>
#include <cairn/comm/detail/tree/engine.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>
#include <cairn/error.hpp>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL tree_seat::tree_seat(std::shared_ptr<tree_engine> e, std::uint64_t lane)
    : engine_(std::move(e)), lane_(lane) {
    engine_->attach();
}
CAIRN_DECL tree_seat::tree_seat(tree_seat&& other) noexcept
    : engine_(std::move(other.engine_)), lane_(std::exchange(other.lane_, 0)) {}
CAIRN_DECL tree_seat& tree_seat::operator=(tree_seat&& other) noexcept {
    tree_seat old(std::move(*this));
    engine_ = std::move(other.engine_);
    lane_ = std::exchange(other.lane_, 0);
    return *this;
}
CAIRN_DECL tree_seat::~tree_seat() {
    leave();
}

CAIRN_DECL std::shared_ptr<tree_engine> tree_seat::engine() const noexcept {
    return engine_ && engine_->is_here() ? engine_ : nullptr;
}
CAIRN_DECL void tree_seat::leave() noexcept {
    auto const e = engine();
    engine_ = nullptr;
    if (!e) return;
    if (auto const lane = std::exchange(lane_, 0); lane != 0) {
        try {
            e->run([lane](tree_lanes& l, auto now) { l.leave(lane, now); });
        } catch (...) {  // out of memory: the other ranks notice when the engine ends
        }
    }
    e->detach();
}

inline std::vector<message> one_message(message m) {
    std::vector<message> v;
    v.push_back(std::move(m));
    return v;
}
inline tree_lanes::ended all_results(completion<std::vector<message>> done) {
    auto const to = std::make_shared<completion<std::vector<message>>>(std::move(done));
    return [to](tree_outcome o) {
        if (o.failure) return to->fail(std::move(o.failure));
        (*to)(std::move(o.result));
    };
}
inline tree_lanes::ended first_result(completion<message> done) {
    auto const to = std::make_shared<completion<message>>(std::move(done));
    return [to](tree_outcome o) {
        if (o.failure) return to->fail(std::move(o.failure));
        (*to)(std::move(o.result.front()));
    };
}

CAIRN_DECL tree_operations::tree_operations(tree_seat s)
    : rank_(s.engine()->where().rank), size_(s.engine()->where().size), seat_(std::move(s)) {}

CAIRN_DECL void tree_operations::gather(message m, int root, deadline d,
                                        completion<std::vector<message>> done) {
    start(exchange_kind::gather, root, one_message(std::move(m)), d, all_results(std::move(done)));
}
CAIRN_DECL void tree_operations::scatter(std::vector<message> ms, int root, deadline d,
                                         completion<message> done) {
    if (rank_ != root) ms.clear();
    start(exchange_kind::scatter, root, std::move(ms), d, first_result(std::move(done)));
}
CAIRN_DECL void tree_operations::broadcast(message m, int root, deadline d,
                                           completion<message> done) {
    if (rank_ != root) m.clear();
    start(exchange_kind::broadcast, root, one_message(std::move(m)), d,
          first_result(std::move(done)));
}
CAIRN_DECL void tree_operations::all_gather(message m, deadline d,
                                            completion<std::vector<message>> done) {
    start(exchange_kind::all_gather, 0, one_message(std::move(m)), d, all_results(std::move(done)));
}
CAIRN_DECL void tree_operations::take_another(deadline d, completion<tree_seat> done) {
    struct pending {
        completion<tree_seat> done;
        tree_seat seat;  ///< Taken now: this group may be destroyed before the exchange ends.
    };
    auto const e = seat_.engine();
    auto seat = e ? tree_seat(e, 0) : tree_seat();
    auto const p = std::make_shared<pending>(pending{std::move(done), std::move(seat)});
    start(exchange_kind::duplicate, 0, {}, d, [p](tree_outcome o) {
        if (o.failure) return p->done.fail(std::move(o.failure));
        p->seat.take(o.lane);
        p->done(std::move(p->seat));
    });
}
CAIRN_DECL void tree_operations::share(std::shared_ptr<const activity> a) {
    if (auto const e = seat_.engine())
        e->run([lane = seat_.lane(), a = std::move(a)](tree_lanes& l, auto) { l.share(lane, a); });
}
CAIRN_DECL void tree_operations::cancel() noexcept {
    try {
        auto const e = seat_.engine();
        if (e) e->run([lane = seat_.lane()](tree_lanes& l, auto now) { l.cancel(lane, now); });
    } catch (...) {  // no memory: the others wait until their deadline
    }
}

CAIRN_DECL error tree_operations::no_group() const {
    if (home_.is_this())
        return {errc::invalid_argument,
                {.rank = rank_,
                 .expected = "a group",
                 .found = "one that this rank has left, or that was moved from",
                 .remedy = "make a new group"}};
    return {errc::invalid_argument,
            {.rank = rank_,
             .expected = "a group of this process",
             .found = "one made before fork()",
             .remedy = "make a new one in the child process, or pass cairn::solo()"}};
}
CAIRN_DECL void tree_operations::start(exchange_kind k, int root, std::vector<message> in,
                                       deadline d, tree_lanes::ended done) {
    auto const e = seat_.engine();
    if (!e) return done({std::make_exception_ptr(no_group()), {}, 0});
    e->run([lane = seat_.lane(), k, root, in = std::move(in), d, done = std::move(done)](
               tree_lanes& l, auto now) mutable {
        l.start(lane, k, root, std::move(in), d, std::move(done), now);
    });
}

}  // namespace cairn::detail

#endif
