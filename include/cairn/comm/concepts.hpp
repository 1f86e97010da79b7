// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_CONCEPTS_HPP
#define CAIRN_COMM_CONCEPTS_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// A message between ranks: bytes that only cairn interprets.
using message = std::vector<std::byte>;

/// A fixed group of ranks that exchange small messages: the control plane of a save or load.
///
/// Given `c` of type `C&`, `m` a `message`, `ms` a `std::vector<message>` with one entry per rank
/// at `root` (ignored elsewhere), `root` an `int`, `d` a `deadline`, `a` a
/// `std::shared_ptr<const activity>` that may be null:
///
/// | Expression                        | `done` gets              | Meaning                       |
/// |-----------------------------------|--------------------------|-------------------------------|
/// | `c.rank()`, `c.size()`            |                          | `0 <= rank < size`            |
/// | `c.gather(m, root, d, done)`      | `std::vector<message>`   | rank order at root, else empty|
/// | `c.scatter(ms, root, d, done)`    | `message`                | this rank's                   |
/// | `c.broadcast(m, root, d, done)`   | `message`                | root's                        |
/// | `c.all_gather(m, d, done)`        | `std::vector<message>`   | rank order, on every rank     |
/// | `c.share(a)`                      |                          | what this rank is working on  |
/// | `c.cancel()`                      |                          | `noexcept`; ends it for all   |
///
/// **Semantics**
/// - *Order*: every rank calls the same operations in the same order; one outstanding per rank.
/// - *Completion*: exactly once, from any thread, inside the call or later; not before every rank
///   has called. Completions must not block: they may run on the group's only thread.
/// - *Lifetime*: the group owns its arguments; the caller owns results.
/// - *Overlap*: exchanges of different groups do not wait for each other and do not mix: each
///   message identifies its group and exchange.
/// - *Deadline*: an operation that has not ended at `d` fails with @ref errc::timed_out, which
///   names the ranks that did not arrive, and the group is poisoned: every later call fails with
///   @ref errc::poisoned. A group may extend the deadline while bytes move, and for ranks whose
///   *activity* shows progress, as long as none of them is idle for the time that `d` allowed.
/// - *Activity*: a group that does not track the progress of its ranks ignores `share`.
/// - *Cancellation*: `cancel`, from any thread, fails the operation under way, or the next one,
///   with @ref errc::cancelled on this rank; all others get that or @ref errc::rank_failed.
/// - *Errors*: operations that differ between ranks, or a root out of range, are
///   @ref errc::invalid_argument on all of them; a dead rank is @ref errc::rank_failed with its
///   number. After any of these the group is poisoned.
/// - *Exceptions*: calls may throw, and completions may fail with, exceptions of any type. A verb
///   makes an @ref error of them, and cancels the group: the other ranks may have seen the call.
///
/// A barrier is an empty broadcast. To check a model of your own, run the suite of
/// `cairn/testing/communicator.hpp`.
/// **Models**: `solo`, `thread_group::member`, `tcp_group`, `mpi_group`, `any_communicator`.
/// **Archetype**: `archetype::communicator`.
template <class C>
concept Communicator =
    std::movable<C> && requires(C& c, const C& k, message m, std::vector<message> ms, deadline d,
                                std::shared_ptr<const activity> a, completion<message> one,
                                completion<std::vector<message>> all) {
        { k.rank() } -> std::same_as<int>;
        { k.size() } -> std::same_as<int>;
        { c.gather(std::move(m), 0, d, std::move(all)) } -> std::same_as<void>;
        { c.scatter(std::move(ms), 0, d, std::move(one)) } -> std::same_as<void>;
        { c.broadcast(std::move(m), 0, d, std::move(one)) } -> std::same_as<void>;
        { c.all_gather(std::move(m), d, std::move(all)) } -> std::same_as<void>;
        { c.share(std::move(a)) } -> std::same_as<void>;
        { c.cancel() } noexcept -> std::same_as<void>;
    };

/// A `Communicator` whose exchanges may run in the background, alongside the rest of the program,
/// and which can be duplicated; required by `async_save` and `async_load`.
///
/// | Expression             | `done` gets | Meaning                                              |
/// |------------------------|-------------|------------------------------------------------------|
/// | `c.duplicate(d, done)` | a `C`       | a new group of the same ranks, numbered alike        |
///
/// **Semantics**
/// - *Order, deadline, completion, errors*: `duplicate` is an operation like those of
///   `Communicator`: every rank calls it at the same point in their order. It does not block a
///   thread while it waits for other ranks.
/// - *Independence*: the new group does not wait for the old one, and may outlive it. Cancelling,
///   poisoning or destroying one does not affect the other. Several may have exchanges in flight.
/// - *Moves* do not throw: a completion, which cannot report it, hands on the duplicate.
/// - *Background*: exchanges need no thread of the caller's, and neither use nor disturb the
///   trainer's own communicators and streams.
///
/// **Models**: `solo`, `thread_group::member`, `tcp_group`, `mpi_group`, `any_communicator`.
/// **Archetype**: `archetype::background_communicator`.
template <class C>
concept BackgroundCommunicator = Communicator<C> && std::is_nothrow_move_constructible_v<C> &&
                                 requires(C& c, deadline d, completion<C> done) {
                                     { c.duplicate(d, std::move(done)) } -> std::same_as<void>;
                                 };

}  // namespace cairn

#endif
