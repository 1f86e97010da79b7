// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_MPI_GROUP_HPP
#define CAIRN_COMM_MPI_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/mpi/engine.hpp>
#include <cairn/comm/detail/tree/group.hpp>
#include <cairn/comm/liveness.hpp>

#include <mpi.h>

#include <memory>
#include <utility>

namespace cairn {

/// Options of a group over MPI. The same on all ranks.
struct mpi_options {
    int fan_in = 32;  ///< A rank has at most this many connections, plus one.
    liveness_options liveness{};
};

/// Processes as ranks, over MPI that was initialized with MPI_THREAD_MULTIPLE. (With a lower level,
/// make a `tcp_group` of the communicator: `tcp_group_from_mpi`.)
///
/// The group communicates over a duplicate of the communicator, with point-to-point messages only:
/// it can be cancelled, has deadlines, and does not interfere with the trainer's own messages. It
/// and its duplicates share one thread, which polls MPI and calls the completions; they must not
/// block.
///
/// The constructor is collective, like MPI_Comm_dup: it waits for all ranks of the communicator,
/// without a deadline. `duplicate` does not call MPI collectives, and has a deadline. Destroying
/// the last of them is not collective: it leaves, waits up to a second for the other ranks'
/// answers, and frees the duplicate if all answered; otherwise MPI keeps it, for messages in
/// flight. A group that outlives MPI_Finalize has left by then and no longer uses MPI; its calls
/// fail with @ref errc::rank_failed or @ref errc::poisoned.
///
/// With Open MPI, when a rank dies, the whole job ends (mpirun kills the others).
class mpi_group : public detail::tree_group<mpi_group> {
    using base = detail::tree_group<mpi_group>;

public:
    /// @param of  The ranks of the group; remains the caller's, and may be freed afterwards.
    /// @throws error errc::invalid_argument on all ranks for a thread level below
    /// MPI_THREAD_MULTIPLE and for options that differ or cannot be; on this rank if MPI is not
    /// running, for MPI_COMM_NULL and for an inter-communicator
    explicit mpi_group(MPI_Comm of, const mpi_options& o = {}) : base(join(of, o)) {}

private:
    friend base;
    explicit mpi_group(detail::tree_seat s) : base(std::move(s)) {}

    static detail::tree_seat join(MPI_Comm of, const mpi_options& o) {
        auto const agreed = detail::mpi_agree(of, o.fan_in, o.liveness, MPI_THREAD_MULTIPLE);
        MPI_Comm own = MPI_COMM_NULL;
        detail::mpi_check(MPI_Comm_dup(of, &own), "MPI_Comm_dup");
        detail::mpi_check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN),
                          "MPI_Comm_set_errhandler");
        auto const engine = std::make_shared<detail::mpi_engine>(agreed, own, o.liveness);
        engine->start();
        return {engine, agreed.epoch};
    }
};
static_assert(BackgroundCommunicator<mpi_group>);

}  // namespace cairn

#endif
