// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_TCP_GROUP_IPP
#define CAIRN_COMM_IMPL_TCP_GROUP_IPP

#include <cairn/comm/tcp_group.hpp>

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/launch_environment.hpp>
#include <cairn/comm/detail/tcp/bootstrap.hpp>
#include <cairn/comm/detail/tcp/join.hpp>
#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/comm/detail/tcp/local_hosts.hpp>
#include <cairn/comm/detail/tcp/rendezvous_file.hpp>
#include <cairn/completion.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace cairn {

static_assert(BackgroundCommunicator<tcp_group>);
namespace detail {

inline tcp_id_source id_in(rendezvous_file& file, int rank, const tcp_options& o, bool loopback,
                           made_id& made) {
    if (rank != 0) return [&file] { return file.read(); };
    auto const id = made.make(
        [&] { return loopback ? new_tcp_id(loopback_hosts()) : tcp_group::unique_id(o); });
    file.write(id);  // removed once all ranks have joined
    return [id] { return std::optional(id); };
}

/// Joins through a file. The error of a rank that has waited for it in vain names the file, and so
/// does that of rank 0 if others did not join: they may have looked elsewhere.
inline tree_seat join_through(rendezvous_file& file, tree_topology where, const tcp_options& o,
                              bool loopback, made_id& made) {
    try {
        return join_tcp(where, id_in(file, where.rank, o, loopback, made), o);
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::timed_out) || file.seen()) throw;
        if (where.rank == 0) file.check_alone();  // why others did not join
        auto c = e.context();
        c.file = file.path();
        if (where.rank != 0) {
            c.expected = "rank 0 to write this file";
            std::error_code unknown;
            bool const there = std::filesystem::exists(file.path(), unknown);
            c.found = there
                          ? "a file that this rank cannot read, or that holds no id of this version"
                          : "no such file";
            c.remedy =
                "check that rank 0 is running, and that all ranks name the same directory and run";
        }
        throw error(errc::timed_out, std::move(c));
    }
}

}  // namespace detail

CAIRN_DECL tcp_id tcp_group::unique_id(const tcp_options& o) {
    return detail::new_tcp_id(detail::local_hosts(detail::interfaces_of(o)));
}

CAIRN_DECL tcp_group::tcp_group(const tcp_id& id, int rank, int size, const tcp_options& o)
    : base(detail::join_tcp(
          {rank, size, o.fan_in}, [&id] { return std::optional(id); }, o)) {
    meet(o);
}
CAIRN_DECL tcp_group::tcp_group(detail::rendezvous_file& file, int rank, int size,
                                const tcp_options& o, bool loopback, detail::made_id&& made)
    : base(detail::join_through(file, {rank, size, o.fan_in}, o, loopback, made)) {
    if (rank == 0) file.check_alone();
    meet(o);
}

CAIRN_DECL tcp_group tcp_group::over(const byte_broadcast& broadcast, int rank, int size,
                                     const tcp_options& o) {
    detail::made_id made;
    auto const id =
        detail::broadcast_id(rank, size, broadcast, made, [&o] { return unique_id(o); });
    return tcp_group(id, rank, size, o);
}

CAIRN_DECL tcp_group tcp_group::from_environment(const tcp_options& o) {
    auto e = detail::launch_environment::detect();
    if (!e.contradiction.empty())
        throw error(
            errc::invalid_argument,
            {.expected = "as many ranks as " + e.launcher + " says (" + e.variables + ")",
             .found = e.contradiction + ": another launcher has started them within its step",
             .remedy = "pass the communicator to cairn::tcp_group_from_mpi, or set CAIRN_RANK "
                       "and CAIRN_WORLD_SIZE for each rank; unset PMI_SIZE if a program "
                       "around srun has set it"});
    if (e.by_hand && !o.directory.empty()) e.one_host = false;
    if (e.size == 1) return tcp_group(tcp_id{}, 0, 1, o);
    if (!e.id.empty()) {
        auto const id = tcp_id::parse(e.id);
        if (e.rank == 0) detail::listen_as_told(id, e.descriptor);
        return tcp_group(id, e.rank, e.size, o);
    }
    detail::rendezvous_file file(detail::rendezvous_directory(o.directory, e),
                                 detail::rendezvous_name(e), e.rank);
    bool const loopback = e.one_host && detail::interfaces_of(o).empty();
    return tcp_group(file, e.rank, e.size, o, loopback, {});
}
CAIRN_DECL bool tcp_group::is_launched() {
    return !detail::launch_environment::detect().launcher.empty();
}
CAIRN_DECL tcp_group tcp_group::from_directory(const std::string& directory,
                                               const std::string& name, int rank, int size,
                                               const tcp_options& o) {
    detail::rendezvous_file file(directory, name, rank);
    return tcp_group(file, rank, size, o, false, {});
}

CAIRN_DECL void tcp_group::meet(const tcp_options& o) {
    auto const timeout = std::max(o.join_timeout, std::chrono::milliseconds(5000));
    (void)await_completion<message>(
        [&](auto done) { broadcast({}, 0, deadline_after(timeout), std::move(done)); });
}

}  // namespace cairn

#endif
