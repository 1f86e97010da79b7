// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_CONCEPTS_HPP
#define CAIRN_COMM_CONCEPTS_HPP

#include <cairn/completion.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace cairn {

/// What ranks say to each other: bytes that only cairn understands.
using message = std::vector<std::byte>;

/// The moment by which an exchange must have ended.
using deadline = std::chrono::steady_clock::time_point;
inline constexpr deadline no_deadline = deadline::max();

/// A fixed group of ranks that exchange small messages: the control plane of a save or load.
///
/// Given `c` of type `C&`, `m` a `message`, `ms` a `std::vector<message>` with one entry per rank
/// at `root` (ignored elsewhere), `root` an `int`, `d` a `deadline`:
///
/// | Expression                        | `done` gets              | Meaning                       |
/// |-----------------------------------|--------------------------|-------------------------------|
/// | `c.rank()`, `c.size()`            |                          | `0 <= rank < size`            |
/// | `c.gather(m, root, d, done)`      | `std::vector<message>`   | rank order at root, else empty|
/// | `c.scatter(ms, root, d, done)`    | `message`                | this rank's                   |
/// | `c.broadcast(m, root, d, done)`   | `message`                | root's                        |
/// | `c.all_gather(m, d, done)`        | `std::vector<message>`   | rank order, on every rank     |
/// | `c.barrier(d, done)`              | `done_t`                 | all ranks arrived             |
/// | `c.cancel()`                      |                          | `noexcept`; ends it for all   |
///
/// **Semantics**
/// - *Order*: every rank calls the same operations in the same order; one outstanding per rank.
/// - *Completion*: exactly once, from any thread, inside the call or later; not before every rank
///   has called. Completions must not block: they may run on the group's only thread.
/// - *Lifetime*: what is passed in is the group's; results are the caller's.
/// - *Overlap*: exchanges of different groups do not wait for each other, and do not hear each
///   other: what travels names its group and which of its exchanges it belongs to.
/// - *Deadline*: an operation not ended at `d` fails with @ref errc::timed_out naming the ranks
///   that did not arrive, and the group is poisoned: every later call fails with
///   @ref errc::poisoned. A group that knows what its ranks are at (*activity*) may wait longer for
///   ranks that work on, as long as none is idle for the time that `d` gave.
/// - *Cancellation*: `cancel`, from any thread, fails the operation under way, or the next, with
///   @ref errc::cancelled on this rank; it, or @ref errc::rank_failed, reaches the others.
/// - *Errors*: a mismatch of operations between ranks, or a root that is no rank, is
///   @ref errc::invalid_argument on all of them; a rank that is gone is @ref errc::rank_failed with
///   its number. After any of these the group is poisoned.
/// - *Activity* (optional): `c.share(std::shared_ptr<const activity>)`, whose word the group takes
///   for what this rank is at.
/// - *Blocking only* (optional): `C::blocking_only`, a `static constexpr bool`: true where an
///   exchange must not run beside the trainer's own work, so that `async_save` refuses it.
/// - *Names ranks* (optional): `C::names_ranks`, a `static constexpr bool`: false where a rank that
///   waits cannot tell for whom, nor hear of a rank that cancelled: only its deadline ends that.
///
/// **Models**: `solo`, `thread_group::member`, `tcp_group`, `mpi_group`, `nccl_group`.
/// **Archetype**: `archetype::communicator`.
template <class C>
concept Communicator =
    std::movable<C> && requires(C& c, const C& k, message m, std::vector<message> ms, deadline d,
                                completion<message> one, completion<std::vector<message>> all,
                                completion<done_t> none) {
        { k.rank() } -> std::same_as<int>;
        { k.size() } -> std::same_as<int>;
        { c.gather(std::move(m), 0, d, std::move(all)) } -> std::same_as<void>;
        { c.scatter(std::move(ms), 0, d, std::move(one)) } -> std::same_as<void>;
        { c.broadcast(std::move(m), 0, d, std::move(one)) } -> std::same_as<void>;
        { c.all_gather(std::move(m), d, std::move(all)) } -> std::same_as<void>;
        { c.barrier(d, std::move(none)) } -> std::same_as<void>;
        { c.cancel() } noexcept -> std::same_as<void>;
    };

}  // namespace cairn

#endif
