// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_THREADS_PER_RANK_HPP
#define CAIRN_STORAGE_THREADS_PER_RANK_HPP

#include <cairn/detail/environment.hpp>
#include <cairn/detail/usable_cpus.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn {
namespace detail {

/// The entry of one node in srun's list of the tasks of each, e.g. "4(x3),2". 0: it has none.
inline int slurm_tasks(std::string_view list, int node) {
    auto const take = [&](int& n) {
        auto const got = std::from_chars(list.data(), list.data() + list.size(), n);
        list.remove_prefix(static_cast<std::size_t>(got.ptr - list.data()));
        return got.ec == std::errc();
    };
    auto const skip = [&](std::string_view text) {
        bool const there = list.starts_with(text);
        if (there) list.remove_prefix(text.size());
        return there;
    };
    do {
        int tasks = 0, nodes = 1;
        if (!take(tasks) || (skip("(x") && (!take(nodes) || !skip(")")))) return 0;
        if (node < nodes) return tasks;
        node -= nodes;
    } while (skip(","));
    return 0;
}

/// Returns the number of ranks on this host, as far as their launcher tells; otherwise that of all
/// ranks. Variables that a launcher of another job has left in the environment are ignored: its
/// number of ranks differs.
inline int ranks_of_this_host(int world_size, const environment& get = noted_environment::read) {
    using names = std::pair<const char*, const char*>;
    auto const number = [&](const char* name) {
        auto const text = get(name).value_or("");
        int n = 0;
        auto const* const end = text.data() + text.size();
        auto const got = std::from_chars(text.data(), end, n);
        return got.ec == std::errc() && got.ptr == end ? n : 0;
    };
    for (auto const& [all, local] : {names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                     names{"WORLD_SIZE", "LOCAL_WORLD_SIZE"}}) {
        auto const n = number(local);
        if (number(all) == world_size && n >= 1 && n <= world_size) return n;
    }
    if (number("SLURM_STEP_NUM_TASKS") == world_size && get("SLURM_NODEID")) {
        auto const n =
            slurm_tasks(get("SLURM_STEP_TASKS_PER_NODE").value_or(""), number("SLURM_NODEID"));
        if (n >= 1 && n <= world_size) return n;
    }
    return world_size;
}

}  // namespace detail

/// Returns this rank's part of the CPUs that this process may use, at least 1. They are its own if
/// its affinity mask leaves out some of the host's, and otherwise shared by the ranks of the host.
inline int threads_per_rank(int world_size,
                            detail::usable_cpus cpus = detail::usable_cpus::of_process(),
                            const detail::environment& get = detail::noted_environment::read) {
    auto const ranks =
        cpus.whole_host ? std::max(1, detail::ranks_of_this_host(world_size, get)) : 1;
    return std::max(1, static_cast<int>(cpus.count) / ranks);
}

}  // namespace cairn

#endif
