// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_LAUNCH_ENVIRONMENT_IPP
#define CAIRN_COMM_IMPL_LAUNCH_ENVIRONMENT_IPP

#include <cairn/comm/detail/launch_environment.hpp>

#include <cairn/error.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::detail {

inline std::optional<int> as_number(const std::optional<std::string>& s) {
    int n = -1;
    if (!s) return {};
    auto const* const end = s->data() + s->size();
    auto const got = std::from_chars(s->data(), end, n);
    if (got.ec != std::errc() || got.ptr != end || n < 0) return {};
    return n;
}
/// Slurm uses numbers from 2^32 - 6 on for batch scripts, interactive shells and the like.
inline bool is_slurm_step(const std::optional<std::string>& id) {
    return id && !(id->size() == 10 && *id >= "4294967290");
}

CAIRN_DECL launch_environment launch_environment::detect(const environment& get) {
    auto const has = [&](const char* name) { return get(name).has_value(); };
    auto const text = [&](const char* name) { return get(name).value_or(""); };
    auto const number = [&](const char* name) {
        if (auto const n = as_number(get(name))) return *n;
        auto const s = text(name);
        throw error(errc::invalid_argument,
                    {.expected = "a number in the environment variable " + std::string(name),
                     .found = s.empty() ? "nothing" : "'" + s + "'",
                     .remedy = "start all ranks with one launcher"});
    };
    launch_environment e;
    auto const is = [&](const char* name, const char* its_rank, const char* its_size) {
        e.launcher = name;
        e.rank = number(its_rank);
        e.size = number(its_size);
        e.variables =
            std::string(its_rank) + "=" + text(its_rank) + ", " + its_size + "=" + text(its_size);
    };
    auto const of_torchrun = [&] {
        is("torchrun", "RANK", "WORLD_SIZE");
        e.one_host = text("LOCAL_WORLD_SIZE") == text("WORLD_SIZE");
        // A run without an id of its own is identified by its port.
        e.run = "torchrun-" + text("TORCHELASTIC_RUN_ID") + "-" + text("MASTER_ADDR") + "-" +
                text("MASTER_PORT") + "-" + text("TORCHELASTIC_RESTART_COUNT");
    };
    // torchrun's agents, one on each host, may themselves be ranks of another launcher.
    auto const outer = std::max(as_number(get("CAIRN_WORLD_SIZE")).value_or(0),
                                as_number(get("OMPI_COMM_WORLD_SIZE")).value_or(0));
    bool const within = has("TORCHELASTIC_RUN_ID") && outer > 0 &&
                        as_number(get("GROUP_WORLD_SIZE")) == outer &&
                        as_number(get("WORLD_SIZE")).value_or(0) > outer;
    // Half of a pair is an error, not one rank alone: each process would take itself for all.
    if (within) {
        of_torchrun();
    } else if (has("CAIRN_RANK") || has("CAIRN_WORLD_SIZE")) {
        is("cairn launch", "CAIRN_RANK", "CAIRN_WORLD_SIZE");
        e.id = text("CAIRN_GROUP");
        e.by_hand = e.id.empty();
        e.one_host = !e.by_hand || text("CAIRN_RENDEZVOUS_DIR").empty();
        if (e.rank == 0 && has("CAIRN_LISTEN_FD")) e.descriptor = number("CAIRN_LISTEN_FD");
        e.run = "launch-" + text("CAIRN_RUN");
    } else if (has("OMPI_COMM_WORLD_RANK") || has("OMPI_COMM_WORLD_SIZE")) {
        is("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
        e.one_host = text("OMPI_COMM_WORLD_LOCAL_SIZE") == text("OMPI_COMM_WORLD_SIZE");
        e.run = "mpi-" +
                (has("PMIX_NAMESPACE") ? text("PMIX_NAMESPACE") : text("OMPI_MCA_ess_base_jobid"));
    } else if (has("TORCHELASTIC_RUN_ID") ||
               (has("RANK") && has("WORLD_SIZE") && has("MASTER_PORT"))) {
        of_torchrun();
    } else if (has("SLURM_PROCID") && is_slurm_step(get("SLURM_STEP_ID"))) {
        is("Slurm", "SLURM_PROCID",
           has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
        // Hydra (MPICH, Intel MPI) starts one proxy on each host with srun, and ranks inherit its
        // variables. A number that is lower may be of the shell from which srun was called.
        if (as_number(get("PMI_SIZE")).value_or(0) > e.size)
            e.contradiction = "PMI_SIZE=" + text("PMI_SIZE");
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

CAIRN_DECL std::string launch_environment::unused_variables(const environment& get) {
    constexpr std::pair<const char*, const char*> pairs[] = {
        {"RANK", "WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
        {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
        {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
        {"PALS_RANKID", "PALS_NRANKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"CAIRN_RANK", "CAIRN_WORLD_SIZE"}};
    for (auto const& [rank, size] : pairs) {
        auto const r = as_number(get(rank)), n = as_number(get(size));
        if (n.value_or(0) <= 1 && r.value_or(0) < 1) continue;
        std::string found;
        for (auto const* name : {rank, size})
            if (auto const v = get(name))
                found += (found.empty() ? "" : ", ") + std::string(name) + "=" + *v;
        return found;
    }
    return {};
}

}  // namespace cairn::detail

#endif
