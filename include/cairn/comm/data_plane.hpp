// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DATA_PLANE_HPP
#define CAIRN_COMM_DATA_PLANE_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/completion.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn {

/// Moves tensors' bytes between ranks, in place: what `load` hands on to the replicas of what one
/// rank has read.
///
/// Given `p` of type `P&`, `bytes` a `std::span<std::byte>` of host memory, `root` an `int`, `d` a
/// `deadline`:
///
/// | Expression                        | `done` gets | Meaning                                    |
/// |-----------------------------------|-------------|--------------------------------------------|
/// | `p.rank()`, `p.size()`            |             | among the ranks that the plane joins       |
/// | `p.group()` (optional)            |             | which of the job's planes; without it: 0   |
/// | `p.broadcast(bytes, root, d, done)` | `done_t`  | root's bytes lie in everybody's memory     |
/// | `p.cancel()`                      |             | `noexcept`; ends it for all                |
///
/// **Semantics**
/// - *Ranks*: all of the load's communicator, by the same numbers or by others, or some of them: a
///   job may have several planes, of which each rank is on one, a plane of the replicas of each
///   shard say. `group()` tells them apart: the same number on all ranks of one plane.
/// - *Order*: every rank calls the same broadcasts in the same order; one outstanding per rank.
/// - *Sizes*: the same on every rank; no promise is made to ranks that differ but that none writes
///   beyond its memory.
/// - *Completion*: exactly once, from any thread, inside the call or later. Root's memory has been
///   sent, the others' is filled. Completions must not block.
/// - *Lifetime*: the memory stays where it is, and nobody else touches it, until `done` is called.
/// - *Deadline*, *cancellation*: as for @ref Communicator. A rank that fails by itself calls
///   `cancel`, so that the others do not wait for it.
/// - *Errors*: @ref error or any exception. After one the plane is of no more use.
/// - *Blocking only* (optional): `P::blocking_only`, as for @ref Communicator.
///
/// What is a Communicator is no DataPlane: one that forwards whatever it is given would look like
/// both. Not promised: checksums; what moves the bytes vouches for them, as it does for messages.
/// **Models**: `communicator_data_plane`. **Archetype**: `archetype::data_plane`.
template <class P>
concept DataPlane =
    std::movable<P> && !Communicator<P> &&
    requires(P& p, const P& k, std::span<std::byte> bytes, deadline d, completion<done_t> done) {
        { k.rank() } -> std::same_as<int>;
        { k.size() } -> std::same_as<int>;
        { p.broadcast(bytes, 0, d, std::move(done)) } -> std::same_as<void>;
        { p.cancel() } noexcept -> std::same_as<void>;
    } &&
    (!requires(P& p) { p.group(); } ||
     requires(const P& k) { { k.group() } -> std::same_as<int>; });

/// Broadcasts through the messages of a communicator, in pieces, with one copy more on each side.
/// It may be the one that `load` is given as well: nothing of the two is under way at once.
///
/// @tparam Comm  Borrowed: outlives this.
template <Communicator Comm>
class communicator_data_plane {
public:
    static constexpr bool blocking_only = [] {
        if constexpr (requires { { Comm::blocking_only } -> std::convertible_to<bool>; })
            return bool(Comm::blocking_only);
        return false;
    }();
    /// Memory for larger ones comes from the system each time: over TCP, 4 MiB at once took nearly
    /// twice as long.
    static constexpr std::size_t piece_bytes = std::size_t{1} << 20;

    /// A template, so that nothing is converted: an `any_communicator` would be made of anything.
    /// @param group  Which of the job's planes; all ranks of `comm` give the same number.
    template <std::same_as<Comm> C>
    explicit communicator_data_plane(C& comm, int group = 0)
        : comm_(std::addressof(comm)), group_(group) {}

    int group() const noexcept { return group_; }
    int rank() const { return comm_->rank(); }
    int size() const { return comm_->size(); }
    void cancel() noexcept { comm_->cancel(); }

    /// Ranks that give other sizes than root fail with @ref errc::invalid_argument, and the group
    /// ends for the others too.
    void broadcast(std::span<std::byte> bytes, int root, deadline d, completion<done_t> done) {
        auto const j = std::make_shared<job>(comm_, bytes, root, d, std::move(done));
        proceed(j);
    }

private:
    /// The size of all, in front of the first piece.
    static constexpr std::size_t head_bytes = sizeof(std::uint64_t);

    struct job {
        job(Comm* c, std::span<std::byte> b, int r, deadline d, completion<done_t> to)
            : comm(c), bytes(b), root(r), by(d), done(std::move(to)) {}
        Comm* comm;
        std::span<std::byte> bytes;
        int root;
        deadline by;
        completion<done_t> done;
        std::size_t at = 0;
        bool first = true;

        std::size_t head() const { return first ? head_bytes : 0; }
        std::size_t next() const { return std::min(piece_bytes - head(), bytes.size() - at); }
        message piece() const {
            if (comm->rank() != root) return {};
            message m(head() + next());
            std::uint64_t const all = bytes.size();
            if (first) std::memcpy(m.data(), &all, sizeof all);
            if (next() != 0) std::memcpy(m.data() + head(), bytes.data() + at, next());
            return m;
        }
        /// @throws error errc::invalid_argument for a piece of something else
        void take(const message& m) {
            std::uint64_t all = bytes.size();
            if (first && m.size() >= sizeof all) std::memcpy(&all, m.data(), sizeof all);
            if (all != bytes.size() || m.size() != head() + next())
                throw error(errc::invalid_argument,
                            {.rank = comm->rank(),
                             .expected = "a broadcast of " + std::to_string(bytes.size()) +
                                         " bytes, as on this rank",
                             .found = all != bytes.size() ? std::to_string(all) + " bytes at root"
                                                          : "a message of another kind"});
            auto const n = next();
            if (n != 0 && comm->rank() != root)
                std::memcpy(bytes.data() + at, m.data() + head(), n);
            at += n;
            first = false;
        }
    };

    /// Piece after piece: a loop where pieces end inside the call, else from their completions.
    static void proceed(const std::shared_ptr<job>& j) {
        enum { calling, left, ended };
        for (;;) {
            auto const where = std::make_shared<std::atomic<int>>(calling);
            message m;
            try {
                m = j->piece();
            } catch (...) {
                j->comm->cancel();
                return j->done.fail(std::current_exception());
            }
            completion<message> got([j, where](std::exception_ptr e, std::optional<message> in) {
                if (!e) {
                    try {
                        j->take(*in);
                    } catch (...) {
                        e = std::current_exception();
                        j->comm->cancel();
                    }
                }
                if (e) return j->done.fail(std::move(e));
                if (j->at == j->bytes.size()) return j->done();
                if (where->exchange(ended) == left) proceed(j);
            });
            // What it throws before it has completed reaches `done` by the completion it drops.
            j->comm->broadcast(std::move(m), j->root, j->by, std::move(got));
            if (where->exchange(left) != ended) return;
        }
    }

    Comm* comm_;
    int group_;
};
template <class Comm>
communicator_data_plane(Comm&, int = 0) -> communicator_data_plane<Comm>;

}  // namespace cairn

#endif
