// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DATA_PLANE_HPP
#define CAIRN_COMM_DATA_PLANE_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/completion.hpp>
#include <cairn/memory/memory_span.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace cairn {

/// Moves tensor bytes between ranks, in place: `load` uses it to send data that one rank has read
/// to all replicas.
///
/// Given `p` of type `P&`, `m` a `memory_span`, `root` an `int`, `d` a `deadline`:
///
/// | Expression                      | `done` gets | Meaning                                      |
/// |---------------------------------|-------------|----------------------------------------------|
/// | `p.rank()`, `p.size()`          |             | among the ranks that the plane joins         |
/// | `p.plane_id()`                  |             | which of the job's planes this is            |
/// | `p.serves(m.device)`            |             | whether it sends from and fills such memory  |
/// | `p.broadcast(m, root, d, done)` | `done_t`    | root's bytes are in every rank's memory      |
/// | `p.cancel()`                    |             | `noexcept`; ends it for all                  |
///
/// **Semantics**
/// - *Ranks*: all ranks of the load's communicator, with the same or different numbers, or a
///   subset. A job may have several planes, with each rank on exactly one, e.g. one for the
///   replicas of each shard. `plane_id()` distinguishes them: it is the same on all ranks of one
///   plane. A plane of all ranks returns 0.
/// - *Order*: every rank calls the same broadcasts in the same order; one outstanding per rank.
/// - *Memory*: every plane serves host memory. One that serves a device too is given device memory
///   by some ranks, and host memory by others, in one broadcast. It is not given memory of a device
///   that it does not serve on that rank. No work on a device that uses the memory is pending
///   then, nor when `done` is called, also with an error: what is enqueued later sees the bytes.
/// - *Sizes*: the same on every rank. If they differ, broadcasts may fail or have any content, but
///   no rank writes beyond its memory.
/// - *Completion*: exactly once, from any thread, inside the call or later; root's memory has then
///   been sent, and the others' filled. Completions must not block.
/// - *Lifetime*: the memory must stay valid, and must not be accessed, until `done` is called.
/// - *Deadline*, *cancellation*: as for @ref Communicator. A rank that fails by itself calls
///   `cancel`, so that the others do not wait for it.
/// - *Errors*: @ref error or any exception. After one the plane is unusable.
///
/// A Communicator is not a DataPlane: a wrapper that forwards any call would look like both.
/// Checksums are not guaranteed; as for messages, the transport is trusted. To check a model of
/// your own, run the suite of `cairn/testing/data_plane.hpp`.
/// **Models**: `communicator_data_plane`, `nccl_data_plane`.
/// **Archetype**: `archetype::data_plane`.
template <class P>
concept DataPlane = std::movable<P> && !Communicator<P> &&
                    requires(P& p, const P& k, memory_span m, deadline d, completion<done_t> done) {
                        { k.rank() } -> std::same_as<int>;
                        { k.size() } -> std::same_as<int>;
                        { k.plane_id() } -> std::same_as<int>;
                        { k.serves(m.device) } -> std::same_as<bool>;
                        { p.broadcast(m, 0, d, std::move(done)) } -> std::same_as<void>;
                        { p.cancel() } noexcept -> std::same_as<void>;
                    };

/// A `DataPlane` whose broadcasts may run in the background, alongside the rest of the program;
/// required by `async_load`.
///
/// | Expression             | `done` gets | Meaning                                               |
/// |------------------------|-------------|-------------------------------------------------------|
/// | `p.duplicate(d, done)` | a `P`       | another plane of the same ranks, with the same number |
///
/// **Semantics**: as for @ref BackgroundCommunicator.
/// **Models**: `communicator_data_plane` over a `BackgroundCommunicator`.
template <class P>
concept BackgroundDataPlane = DataPlane<P> && std::is_nothrow_move_constructible_v<P> &&
                              requires(P& p, deadline d, completion<P> done) {
                                  { p.duplicate(d, std::move(done)) } -> std::same_as<void>;
                              };

}  // namespace cairn

#endif
