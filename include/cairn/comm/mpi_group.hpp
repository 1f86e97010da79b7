// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_MPI_GROUP_HPP
#define CAIRN_COMM_MPI_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/mpi/engine.hpp>
#include <cairn/comm/tree/calls.hpp>

#include <mpi.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn {

/// How a group over MPI talks. The same on all ranks.
struct mpi_options {
    int fan_in = 32;  ///< Ranks that send to one, at most, but one.
    group_patience patience{};  ///< Of `mpi_serialized_group` only `judge`.
};

/// Processes as ranks, over MPI: `mpi_group` and `mpi_serialized_group`.
///
/// The group speaks on a duplicate of the communicator that it is given, with point-to-point
/// messages only: it can be cancelled, has deadlines, and cannot get in the way of the trainer's
/// own messages. It has one thread, which polls MPI and calls the completions; they must not block.
///
/// Making one is collective, as MPI_Comm_dup: it waits for all ranks of the communicator, without a
/// deadline. Destroying one is not: it leaves, waits up to a second for the others' answers, and
/// frees the duplicate if they came; else MPI keeps it, for what is still on its way. A group that
/// outlives MPI_Finalize has left there, and does not touch MPI any more; its calls fail with @ref
/// errc::rank_failed or @ref errc::poisoned.
///
/// With Open MPI, a rank that dies takes the whole job with it (mpirun ends the others); that is
/// not the group's doing.
/// @tparam Level  MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED.
template <int Level>
class basic_mpi_group : public detail::tree_calls<basic_mpi_group<Level>> {
    static_assert(Level == MPI_THREAD_MULTIPLE || Level == MPI_THREAD_SERIALIZED,
                  "a group's own thread calls MPI: below MPI_THREAD_SERIALIZED it must not");

public:
    /// Whether only the blocking verbs may be used.
    static constexpr bool blocking_only = Level == MPI_THREAD_SERIALIZED;

    /// @param of  Whose ranks these are; stays the caller's, and may be freed.
    /// @throws error errc::invalid_argument on all ranks for a thread level below `Level`, or
    /// fan-ins that differ; on this rank when MPI does not run, for MPI_COMM_NULL and for an
    /// inter-communicator
    explicit basic_mpi_group(MPI_Comm of, const mpi_options& o = {}) {
        auto const agreed = detail::mpi_agree(of, o.fan_in, Level);
        MPI_Comm own = MPI_COMM_NULL;
        detail::mpi_check(MPI_Comm_dup(of, &own), "MPI_Comm_dup");
        detail::mpi_check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN),
                          "MPI_Comm_set_errhandler");
        engine_ = std::make_shared<detail::mpi_engine>(agreed, own, o.patience, blocking_only);
        engine_->start();
    }
    basic_mpi_group(basic_mpi_group&&) noexcept = default;
    basic_mpi_group& operator=(basic_mpi_group&& other) noexcept {
        if (this != std::addressof(other)) {
            end();
            engine_ = std::move(other.engine_);
        }
        return *this;
    }
    ~basic_mpi_group() { end(); }

    int rank() const noexcept { return engine_->at.rank; }
    int size() const noexcept { return engine_->at.size; }

    /// From any thread: the exchange under way, or the next one, fails on all ranks with
    /// @ref errc::cancelled, and the group is of no more use.
    void cancel() noexcept { engine_->cancel(); }
    /// What this rank is at, for those who wait for it. A rank whose group is blocking only tells
    /// it in its calls.
    void share(std::shared_ptr<const activity> a) { engine_->share(std::move(a)); }

private:
    friend class detail::tree_calls<basic_mpi_group>;

    void start(detail::exchange_kind k, int root, std::vector<message> in, deadline d,
               detail::tree_ended done) {
        engine_->call(k, root, std::move(in), d, std::move(done));
    }
    void end() noexcept {
        if (auto const e = std::move(engine_)) e->end();
    }

    std::shared_ptr<detail::mpi_engine> engine_;
};

/// For MPI that was started with MPI_THREAD_MULTIPLE: as a `tcp_group`, beside anything that the
/// trainer does.
using mpi_group = basic_mpi_group<MPI_THREAD_MULTIPLE>;

/// For MPI_THREAD_SERIALIZED: calls MPI only while an exchange of this rank's is under way, and in
/// its destructor. Use the blocking verbs, and let no other thread call MPI meanwhile; `async_save`
/// would poll beside the trainer's own calls, so that this is `blocking_only`.
///
/// When it ends, all ranks say goodbye to each other: destroy it on all of them at about the same
/// time, as happens at the end of a scope. Between its exchanges a rank is silent, also while it
/// writes: nothing tells a rank at work from one that is stuck, so give deadlines in which the
/// slowest can write. A rank that dies outside of MPI is noticed by the deadline alone.
using mpi_serialized_group = basic_mpi_group<MPI_THREAD_SERIALIZED>;

static_assert(Communicator<mpi_group> && Communicator<mpi_serialized_group>);

}  // namespace cairn

#endif
