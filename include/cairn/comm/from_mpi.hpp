// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_FROM_MPI_HPP
#define CAIRN_COMM_FROM_MPI_HPP

#include <cairn/comm/detail/mpi/agree.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <mpi.h>

#include <cstddef>
#include <span>

namespace cairn {

/// Makes a `tcp_group` of the ranks of an `MPI_Comm`, with the same rank numbers. It works with
/// every verb, and requires no particular thread level of MPI. The communicator is used only during
/// this call, for one `MPI_Bcast` on the calling thread.
///
/// Collective: must be called by all ranks of the communicator.
/// @throws as `tcp_group`'s constructor over a broadcast; error errc::invalid_argument if MPI is
/// not running, for MPI_COMM_NULL and for an inter-communicator
inline tcp_group tcp_group_from_mpi(MPI_Comm comm, const tcp_options& o = {}) {
    detail::mpi_must_be_usable(comm);
    int rank = 0, size = 1;
    detail::mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    detail::mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    auto const broadcast = [comm](std::span<std::byte> bytes, int root) {
        detail::mpi_check(
            MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, comm),
            "MPI_Bcast");
    };
    return tcp_group(rank, size, broadcast, o);
}

}  // namespace cairn

#endif
