// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_GROUP_HPP
#define CAIRN_COMM_DETAIL_TREE_GROUP_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/error.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

enum class exchange_kind : std::uint8_t;
class tree_engine;
struct tree_outcome;

/// A group's handle to its lane and to the engine that carries it.
class tree_seat {
public:
    tree_seat() = default;
    /// @param lane  0: none yet.
    CAIRN_DECL tree_seat(std::shared_ptr<tree_engine> e, std::uint64_t lane);
    CAIRN_DECL tree_seat(tree_seat&& other) noexcept;
    CAIRN_DECL tree_seat& operator=(tree_seat&& other) noexcept;
    CAIRN_DECL ~tree_seat();

    /// Null if this was left, or moved from, or is its parent's in a forked child.
    CAIRN_DECL std::shared_ptr<tree_engine> engine() const noexcept;
    std::uint64_t lane() const noexcept { return lane_; }
    void take(std::uint64_t lane) noexcept { lane_ = lane; }

    CAIRN_DECL void leave() noexcept;

private:
    std::shared_ptr<tree_engine> engine_{};
    std::uint64_t lane_ = 0;
};

/// The operations of a Communicator, over a seat.
class tree_operations {
public:
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    CAIRN_DECL void gather(message m, int root, deadline d, completion<std::vector<message>> done);
    CAIRN_DECL void scatter(std::vector<message> ms, int root, deadline d,
                            completion<message> done);
    CAIRN_DECL void broadcast(message m, int root, deadline d, completion<message> done);
    CAIRN_DECL void all_gather(message m, deadline d, completion<std::vector<message>> done);
    /// Sets this rank's activity, for the ranks that wait for it. Null: unknown.
    CAIRN_DECL void share(std::shared_ptr<const activity> a);
    /// From any thread: the exchange under way, or the next one, fails on all ranks, and the group
    /// is unusable afterwards.
    CAIRN_DECL void cancel() noexcept;

protected:
    CAIRN_DECL explicit tree_operations(tree_seat s);

    /// Makes the seat of a duplicate.
    CAIRN_DECL void take_another(deadline d, completion<tree_seat> done);
    /// Takes part in no more exchanges; those under way fail.
    void leave() noexcept { seat_.leave(); }

private:
    CAIRN_DECL error no_group() const;
    CAIRN_DECL void start(exchange_kind k, int root, std::vector<message> in, deadline d,
                          std::function<void(tree_outcome)> done);

    int rank_;
    int size_;
    home_process home_{};
    tree_seat seat_;
};

/// The operations of a BackgroundCommunicator for a `Group` that derives from this and can be
/// constructed from a `tree_seat`.
template <class Group>
class tree_group : public tree_operations {
public:
    /// See `BackgroundCommunicator`. Costs one exchange: the new group uses the same connections.
    void duplicate(deadline d, completion<Group> done) {
        auto const to = std::make_shared<completion<Group>>(std::move(done));
        take_another(d,
                     completion<tree_seat>([to](std::exception_ptr e, std::optional<tree_seat> s) {
                         if (e) return to->fail(std::move(e));
                         (*to)(Group(std::move(*s)));
                     }));
    }

protected:
    explicit tree_group(tree_seat s) : tree_operations(std::move(s)) {}
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/tree_group.ipp>
#endif

#endif
