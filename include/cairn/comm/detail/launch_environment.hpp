// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_LAUNCH_ENVIRONMENT_HPP
#define CAIRN_COMM_DETAIL_LAUNCH_ENVIRONMENT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>

#include <string>

namespace cairn::detail {

/// This process's rank, according to the launcher that started it.
struct launch_environment {
    int rank = 0;
    int size = 1;
    bool one_host = true;  ///< All ranks run on this host.
    bool by_hand = false;  ///< By no launcher: on several hosts if they are told where to meet.
    std::string launcher{};
    std::string run{};            ///< Unique to this run of this job; usable as a file name.
    std::string id{};             ///< A `tcp_id`, if the launcher provides one.
    int descriptor = -1;          ///< Rank 0's listening socket, if the launcher has opened it.
    std::string variables{};      ///< "RANK=1, WORLD_SIZE=4": the source of rank and size.
    std::string contradiction{};  ///< "PMI_SIZE=8": shows that these are of another process.

    /// The supported launchers, as text for errors.
    static constexpr const char* looked_for =
        "CAIRN_RANK and CAIRN_WORLD_SIZE (cairn launch), OMPI_COMM_WORLD_RANK and "
        "OMPI_COMM_WORLD_SIZE (Open MPI), RANK, WORLD_SIZE and MASTER_PORT (torchrun), "
        "SLURM_PROCID, SLURM_STEP_ID and SLURM_NTASKS (Slurm)";

    /// @throws error errc::invalid_argument naming the variable that is missing or not a number
    CAIRN_DECL static launch_environment detect(const environment& get = read_environment);

    /// Variables that show that this process is one of several, but come from a launcher that
    /// `detect` does not know, or from an incomplete set of a known one; empty if there are none.
    CAIRN_DECL static std::string unused_variables(const environment& get = read_environment);
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/launch_environment.ipp>
#endif

#endif
