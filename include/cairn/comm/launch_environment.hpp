// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_LAUNCH_ENVIRONMENT_HPP
#define CAIRN_COMM_LAUNCH_ENVIRONMENT_HPP

#include <cairn/error.hpp>

#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// Who this process is, as whoever started it says.
struct launch_environment {
    int rank = 0;
    int size = 1;
    bool one_host = true;   ///< All ranks run on this one.
    std::string launcher{};
    std::string run{};      ///< Of this start of this job alone; fit for a file's name.
    std::string id{};       ///< A `tcp_id`, if the launcher carries one.
    int descriptor = -1;    ///< Rank 0's listening socket, if the launcher has opened it.

    using variables = std::function<std::optional<std::string>(const char*)>;

    static launch_environment detect() {
        return detect([](const char* name) -> std::optional<std::string> {
            auto const* const v = std::getenv(name);
            if (v == nullptr || *v == '\0') return {};
            return v;
        });
    }
    /// @throws error errc::invalid_argument naming the variable that is missing or no number
    static launch_environment detect(const variables& get) {
        auto const has = [&](const char* name) { return get(name).has_value(); };
        auto const number = [&](const char* name) {
            auto const s = get(name).value_or("");
            int n = -1;
            auto const got = std::from_chars(s.data(), s.data() + s.size(), n);
            if (got.ec != std::errc() || got.ptr != s.data() + s.size() || n < 0)
                throw error(errc::invalid_argument,
                            {.expected = "a number in the environment variable " +
                                         std::string(name),
                             .found = s.empty() ? "nothing" : "'" + s + "'",
                             .remedy = "start all ranks with one launcher"});
            return n;
        };
        auto const text = [&](const char* name) { return get(name).value_or(""); };
        launch_environment e;
        if (has("CAIRN_RANK")) {
            e.launcher = "cairn launch";
            e.rank = number("CAIRN_RANK");
            e.size = number("CAIRN_WORLD_SIZE");
            e.id = text("CAIRN_GROUP");
            if (e.rank == 0 && has("CAIRN_LISTEN_FD")) e.descriptor = number("CAIRN_LISTEN_FD");
            e.run = "launch-" + text("CAIRN_RUN");
            e.one_host = !has("CAIRN_HOSTS");
        } else if (has("OMPI_COMM_WORLD_RANK")) {
            e.launcher = "Open MPI";
            e.rank = number("OMPI_COMM_WORLD_RANK");
            e.size = number("OMPI_COMM_WORLD_SIZE");
            e.one_host = text("OMPI_COMM_WORLD_LOCAL_SIZE") == text("OMPI_COMM_WORLD_SIZE");
            e.run = "mpi-" + (has("PMIX_NAMESPACE") ? text("PMIX_NAMESPACE")
                                                    : text("OMPI_MCA_ess_base_jobid"));
        } else if (has("TORCHELASTIC_RUN_ID") ||
                   (has("RANK") && has("WORLD_SIZE") && has("MASTER_PORT"))) {
            e.launcher = "torchrun";
            e.rank = number("RANK");
            e.size = number("WORLD_SIZE");
            e.one_host = text("LOCAL_WORLD_SIZE") == text("WORLD_SIZE");
            // A run without an id of its own is told from others by its port.
            e.run = "torchrun-" + text("TORCHELASTIC_RUN_ID") + "-" + text("MASTER_ADDR") + "-" +
                    text("MASTER_PORT") + "-" + text("TORCHELASTIC_RESTART_COUNT");
        } else if (has("SLURM_PROCID") && has("SLURM_STEP_ID")) {
            e.launcher = "Slurm";
            e.rank = number("SLURM_PROCID");
            e.size = has("SLURM_STEP_NUM_TASKS") ? number("SLURM_STEP_NUM_TASKS")
                                                 : number("SLURM_NTASKS");
            e.one_host = text("SLURM_STEP_NUM_NODES") == "1" || text("SLURM_NNODES") == "1";
            e.run = "slurm-" + text("SLURM_JOB_ID") + "-" + text("SLURM_STEP_ID") + "-" +
                    text("SLURM_RESTART_COUNT");
        }
        if (e.size < 1 || e.rank >= e.size)
            throw error(errc::invalid_argument,
                        {.expected = "a rank below the number of ranks, from " + e.launcher,
                         .found = std::to_string(e.rank) + " of " + std::to_string(e.size)});
        for (auto& c : e.run)
            if (std::string_view("/\\:*? \t\n").find(c) != std::string_view::npos) c = '_';
        return e;
    }
};

}  // namespace cairn::detail

#endif
