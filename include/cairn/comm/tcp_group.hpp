// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_GROUP_HPP
#define CAIRN_COMM_TCP_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/launch_environment.hpp>
#include <cairn/comm/tcp/bootstrap.hpp>
#include <cairn/comm/tcp/engine.hpp>
#include <cairn/comm/tcp/join.hpp>
#include <cairn/comm/tcp/rendezvous_file.hpp>
#include <cairn/comm/tcp_options.hpp>
#include <cairn/comm/tree/group.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn {

/// Processes as ranks, on one machine or many, over TCP.
///
/// The group is a control plane of its own: it never touches the trainer's communicators or
/// streams, so that saving in the background cannot get in the way of training. It and its
/// duplicates share one thread, which calls the completions; they must not block.
///
/// When a rank dies, leaves or stops responding, the exchange under way, or the next one, fails on
/// all ranks with @ref errc::rank_failed and its number. See `liveness_options` for how soon.
class tcp_group : public detail::tree_group<tcp_group, detail::tcp_engine> {
    using base = detail::tree_group<tcp_group, detail::tcp_engine>;

public:
    /// Rank 0 makes one and passes it on, as with NCCL: `tcp_id::text()` is printable. Listens from
    /// here on; the `tcp_group` of rank 0 that is made of it takes the sockets over.
    static tcp_id unique_id(const tcp_options& o = {}) {
        return detail::new_tcp_id(detail::local_hosts(detail::interfaces_of(o)));
    }

    /// Returns once all ranks have joined.
    /// @param id  What `unique_id` gave on rank 0.
    /// @throws error errc::timed_out naming who did not join, errc::invalid_argument when a rank
    /// was started differently, errc::io when the process has too few descriptors
    tcp_group(const tcp_id& id, int rank, int size, const tcp_options& o = {})
        : base(detail::join_tcp({rank, size, o.fan_in}, [&id] { return std::optional(id); }, o)) {
        meet(o);
    }

    /// Over any broadcast of bytes that the user has, for which it is called once: of an
    /// `ncclComm_t` (`cairn/comm/from_nccl.hpp`), an `MPI_Comm` (`cairn/comm/from_mpi.hpp`), a
    /// store of keys, or a function. The group does not use it afterwards.
    ///
    /// @param broadcast  `broadcast(std::span<std::byte> bytes, int root)`, called on every rank
    ///                   with root 0 and memory of the same size: blocks until root's bytes are in
    ///                   it. With one rank it is not called.
    /// @throws as above; on every rank when rank 0 cannot listen; what `broadcast` throws
    template <class Broadcast>
        requires std::invocable<Broadcast&, std::span<std::byte>, int>
    tcp_group(int rank, int size, Broadcast&& broadcast, const tcp_options& o = {})
        : tcp_group(rank, size, broadcast, o, detail::made_id()) {}

    /// As the launcher says that started this process: `cairn launch`, torchrun, Open MPI or Slurm;
    /// without any, one rank alone. Where the launcher has no means to carry an id, rank 0 leaves
    /// it in a file that only its user can read, in `tcp_options::directory`, which all hosts
    /// share; on a single host a directory under /tmp does.
    /// @throws error errc::invalid_argument when a directory is needed and not named; and as above
    static tcp_group from_environment(const tcp_options& o = {}) {
        auto const e = detail::launch_environment::detect();
        if (e.size == 1) return tcp_group(tcp_id{}, 0, 1, o);
        if (!e.id.empty()) {
            auto const id = tcp_id::parse(e.id);
            if (e.rank == 0) detail::listen_as_told(id, e.descriptor);
            return tcp_group(id, e.rank, e.size, o);
        }
        detail::rendezvous_file file(detail::rendezvous_directory(o.directory, e),
                                     detail::rendezvous_name(e));
        bool const loopback = e.one_host && detail::interfaces_of(o).empty();
        return tcp_group(file, e.rank, e.size, o, loopback);
    }

    /// Whether a launcher that `from_environment` knows has started this process.
    static bool is_launched() { return !detail::launch_environment::detect().launcher.empty(); }

    /// Ranks that share a directory and know their number.
    /// @param name  Of this run: another for each that may run at the same time.
    /// @throws error errc::already_exists on rank 0 if another run with this name is joining; and
    /// as above
    static tcp_group from_directory(const std::string& directory, const std::string& name, int rank,
                                    int size, const tcp_options& o = {}) {
        detail::rendezvous_file file(directory, name);
        return tcp_group(file, rank, size, o, false);
    }

private:
    friend base;
    explicit tcp_group(detail::tree_seat<detail::tcp_engine> s) : base(std::move(s)) {}

    template <class Broadcast>
    tcp_group(int rank, int size, Broadcast& broadcast, const tcp_options& o,
              detail::made_id&& made)
        : tcp_group(detail::broadcast_id(rank, size, broadcast, made,
                                         [&o] { return unique_id(o); }),
                    rank, size, o) {}
    tcp_group(detail::rendezvous_file& file, int rank, int size, const tcp_options& o,
              bool loopback, detail::made_id&& made = {})
        : base(detail::join_tcp({rank, size, o.fan_in}, source(file, rank, o, loopback, made), o)) {
        meet(o);
    }
    static detail::tcp_id_source source(detail::rendezvous_file& file, int rank,
                                        const tcp_options& o, bool loopback,
                                        detail::made_id& made) {
        if (rank != 0) return [&file] { return file.read(); };
        auto const id = made.make([&] {
            return loopback ? detail::new_tcp_id(detail::loopback_hosts()) : unique_id(o);
        });
        file.write(id);  // it goes when all have joined
        return [id] { return std::optional(id); };
    }
    /// The first exchange: all ranks have got as far as this.
    void meet(const tcp_options& o) {
        auto const timeout = std::max(o.join_timeout, std::chrono::milliseconds(5000));
        (void)await_completion<message>([&](auto done) {
            broadcast({}, 0, deadline_after(timeout), std::move(done));
        });
    }
};
static_assert(BackgroundCommunicator<tcp_group>);

}  // namespace cairn

#endif
