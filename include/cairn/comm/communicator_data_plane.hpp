// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_COMMUNICATOR_DATA_PLANE_HPP
#define CAIRN_COMM_COMMUNICATOR_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
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

/// Broadcasts through the messages of a communicator, in pieces, with one more copy on each side.
/// It may use the communicator that `load` is given as well: the two are never under way at once.
///
/// A broadcast does not time out while pieces arrive: each has the time that its deadline allowed.
/// @tparam Comm  Borrowed: outlives this. A duplicate owns its own.
template <Communicator Comm>
class communicator_data_plane {
public:
    /// Memory for larger ones comes from the system each time: over TCP, 4 MiB at once took nearly
    /// twice as long.
    static constexpr std::size_t piece_bytes = std::size_t{1} << 20;

    /// A template, so that nothing is converted: an `any_communicator` would be made of anything.
    /// @param plane_id  Which of the job's planes; all ranks of `comm` give the same number.
    template <std::same_as<Comm> C>
    explicit communicator_data_plane(C& comm, int plane_id = 0)
        : comm_(std::shared_ptr<void>(), std::addressof(comm)), plane_id_(plane_id) {}

    int plane_id() const noexcept { return plane_id_; }
    int rank() const { return comm_->rank(); }
    int size() const { return comm_->size(); }
    void cancel() noexcept { comm_->cancel(); }

    /// Ranks that give another size than root fail with @ref errc::invalid_argument, and the group
    /// ends for the others too.
    void broadcast(std::span<std::byte> bytes, int root, deadline d, completion<done_t> done) {
        auto const j = std::make_shared<job>(comm_, bytes, root, d, std::move(done));
        proceed(j);
    }
    void duplicate(deadline d, completion<communicator_data_plane> done)
        requires BackgroundCommunicator<Comm>
    {
        auto const to = std::make_shared<completion<communicator_data_plane>>(std::move(done));
        comm_->duplicate(
            d, completion<Comm>([to, id = plane_id_](std::exception_ptr e, std::optional<Comm> c) {
                if (e) return to->fail(std::move(e));
                try {
                    (*to)(communicator_data_plane(std::make_shared<Comm>(std::move(*c)), id));
                } catch (...) {  // no memory
                    to->fail(std::current_exception());
                }
            }));
    }

private:
    /// The size of all, in front of the first piece.
    static constexpr std::size_t head_bytes = sizeof(std::uint64_t);

    communicator_data_plane(std::shared_ptr<Comm> comm, int plane_id)
        : comm_(std::move(comm)), plane_id_(plane_id) {}

    struct job {
        job(std::shared_ptr<Comm> c, std::span<std::byte> b, int r, deadline d,
            completion<done_t> to)
            : comm(std::move(c)), bytes(b), root(r), by(d),
              given(std::chrono::ceil<std::chrono::milliseconds>(
                  d == no_deadline ? deadline::duration(0)
                                   : d - std::chrono::steady_clock::now())),
              done(std::move(to)) {}
        std::shared_ptr<Comm> comm;
        std::span<std::byte> bytes;
        int root;
        deadline by;
        std::chrono::milliseconds given;
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
            if (by != no_deadline) by = deadline_after(given);
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

    std::shared_ptr<Comm> comm_;
    int plane_id_;
};
template <class Comm>
communicator_data_plane(Comm&, int = 0) -> communicator_data_plane<Comm>;

}  // namespace cairn

#endif
