// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_GROUP_HPP
#define CAIRN_COMM_TCP_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/tree/group.hpp>
#include <cairn/comm/tcp_options.hpp>
#include <cairn/comm/unique_id.hpp>
#include <cairn/detail/config.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace cairn {
namespace detail {

class made_id;
class rendezvous_file;

}  // namespace detail

/// Processes as ranks, on one machine or many, over TCP.
///
/// The group is an independent control plane: it never uses the trainer's communicators or streams,
/// so that background saves do not interfere with training. It and its duplicates share one thread,
/// which calls the completions; they must not block.
///
/// When a rank dies, leaves or stops responding, the exchange under way, or the next one, fails on
/// all ranks with @ref errc::rank_failed and its number. See `liveness_options` for the timeouts.
class tcp_group : public detail::tree_group<tcp_group> {
    using base = detail::tree_group<tcp_group>;

public:
    /// Makes an id on rank 0, to be passed to the other ranks, as with NCCL: `tcp_id::text()` is
    /// printable. Starts to listen; rank 0's `tcp_group` made from the id takes over the sockets.
    CAIRN_DECL static tcp_id unique_id(const tcp_options& o = {});

    /// Returns once all ranks have joined.
    /// @param id  The result of `unique_id` on rank 0.
    /// @throws error errc::timed_out naming the ranks that did not join, errc::invalid_argument if
    /// a rank was started with different arguments, errc::io if the process has too few descriptors
    CAIRN_DECL tcp_group(const tcp_id& id, int rank, int size, const tcp_options& o = {});

    /// Makes a group over any broadcast of bytes that the user has, called once: that of an
    /// `ncclComm_t` (`cairn/comm/from_nccl.hpp`), an `MPI_Comm` (`cairn/comm/from_mpi.hpp`), a
    /// key-value store, or a function. The group does not use it afterwards.
    ///
    /// @param broadcast  `broadcast(std::span<std::byte> bytes, int root)`, called on every rank
    ///                   with root 0 and memory of the same size: blocks until root's bytes are in
    ///                   it. With one rank it is not called.
    /// @throws as above; on every rank if rank 0 cannot listen; what `broadcast` throws
    template <class Broadcast>
        requires std::invocable<Broadcast&, std::span<std::byte>, int>
    tcp_group(int rank, int size, Broadcast&& broadcast, const tcp_options& o = {})
        : tcp_group(over([&](std::span<std::byte> bytes, int root) { broadcast(bytes, root); },
                         rank, size, o)) {}

    /// Makes a group as configured by the launcher of this process: `cairn launch`, torchrun, Open
    /// MPI or Slurm; without a launcher, a group of one rank. If the launcher cannot pass an id,
    /// rank 0 writes it to a file that only its user can read, in `tcp_options::directory`, which
    /// all hosts share; for a single host the default is a directory under /tmp.
    /// @throws error errc::invalid_argument if a directory is needed and not configured; and as
    /// above
    CAIRN_DECL static tcp_group from_environment(const tcp_options& o = {});

    /// Whether this process was started by a launcher that `from_environment` supports.
    CAIRN_DECL static bool is_launched();

    /// Makes a group of ranks that share a directory and know their numbers.
    /// @param directory  Made if it does not exist.
    /// @param name  Names the run: different for runs that may overlap.
    /// @throws error errc::already_exists on rank 0 if another run with this name is joining;
    /// errc::io if the directory cannot be made or written; and as above
    CAIRN_DECL static tcp_group from_directory(const std::string& directory,
                                               const std::string& name, int rank, int size,
                                               const tcp_options& o = {});

private:
    friend base;
    explicit tcp_group(detail::tree_seat s) : base(std::move(s)) {}
    CAIRN_DECL tcp_group(detail::rendezvous_file& file, int rank, int size, const tcp_options& o,
                         bool loopback, detail::made_id&& made);

    using byte_broadcast = std::function<void(std::span<std::byte>, int)>;
    CAIRN_DECL static tcp_group over(const byte_broadcast& broadcast, int rank, int size,
                                     const tcp_options& o);
    /// Performs the first exchange, which shows that all ranks have joined.
    CAIRN_DECL void meet(const tcp_options& o);
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/tcp_group.ipp>
#endif

#endif
