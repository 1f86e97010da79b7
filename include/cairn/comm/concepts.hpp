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
///
/// **Semantics**
/// - *Order*: every rank calls the same operations in the same order; one outstanding per rank.
/// - *Completion*: exactly once, from any thread, inside the call or later.
/// - *Deadline*: an operation not ended at `d` fails with @ref errc::timed_out naming the ranks
///   that did not arrive, and the group is poisoned: every later call fails with
///   @ref errc::poisoned.
/// - *Errors*: a mismatch of operations between ranks is an error on all of them.
///
/// **Models**: `solo`, `thread_group::member`. **Archetype**: `archetype::communicator`.
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
    };

}  // namespace cairn

#endif
