// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_CALLS_HPP
#define CAIRN_COMM_TREE_CALLS_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/tree/frame.hpp>
#include <cairn/comm/tree/member.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The five operations of a Communicator for a `Group` whose exchanges a `tree_member` decides.
/// Group derives from this and has `rank()` and
/// `start(exchange_kind, int root, std::vector<message>, deadline, tree_ended)`.
using tree_ended = std::function<void(tree_member::outcome)>;

template <class Group>
class tree_calls {
public:
    void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
        self().start(exchange_kind::gather, root, one(std::move(m)), d, all_of(std::move(done)));
    }
    void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
        if (self().rank() != root) ms.clear();
        self().start(exchange_kind::scatter, root, std::move(ms), d, first_of(std::move(done)));
    }
    void broadcast(message m, int root, deadline d, completion<message> done) {
        self().start(exchange_kind::broadcast, root, one(std::move(m)), d,
                     first_of(std::move(done)));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        self().start(exchange_kind::all_gather, 0, one(std::move(m)), d, all_of(std::move(done)));
    }
    void barrier(deadline d, completion<done_t> done) {
        auto const to = std::make_shared<completion<done_t>>(std::move(done));
        self().start(exchange_kind::barrier, 0, {}, d, [to](tree_member::outcome o) {
            if (o.failure) return to->fail(std::move(o.failure));
            (*to)();
        });
    }

private:
    friend Group;
    tree_calls() = default;

    Group& self() { return static_cast<Group&>(*this); }
    static std::vector<message> one(message m) {
        std::vector<message> v;
        v.push_back(std::move(m));
        return v;
    }
    static tree_ended all_of(completion<std::vector<message>> done) {
        auto const to = std::make_shared<completion<std::vector<message>>>(std::move(done));
        return [to](tree_member::outcome o) {
            if (o.failure) return to->fail(std::move(o.failure));
            (*to)(std::move(o.result));
        };
    }
    static tree_ended first_of(completion<message> done) {
        auto const to = std::make_shared<completion<message>>(std::move(done));
        return [to](tree_member::outcome o) {
            if (o.failure) return to->fail(std::move(o.failure));
            (*to)(std::move(o.result.front()));
        };
    }
};

/// What a second call before the first has ended gets.
inline tree_member::outcome two_at_a_time(int rank) {
    return {std::make_exception_ptr(error(errc::invalid_argument,
                                          {.rank = rank,
                                           .expected = "one exchange at a time",
                                           .found = "two"})),
            {}};
}

}  // namespace cairn::detail

#endif
