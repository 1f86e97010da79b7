// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_VERB_EVENT_HPP
#define CAIRN_OBSERVE_VERB_EVENT_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string_view>

namespace cairn {

/// An event of a verb on one rank, as passed to an `EventSink`: the verb begins, goes through
/// phases one after the other, and ends. All that the event refers to is valid only during the
/// call.
struct verb_event {
    using clock = std::chrono::steady_clock;

    enum class kind : std::uint8_t {
        begin,        ///< Of the verb on this rank.
        phase_begin,  ///< Between phases the rank waits for other ranks.
        progress,     ///< Bytes have moved, or it is known how many will.
        phase_end,    ///< Also if the phase failed.
        end           ///< Of the verb on this rank: always the last one.
    };

    kind what = kind::begin;
    /// "save", "async_save", "load", "async_load", or "upload" (`checkpointer_options::upload`).
    std::string_view verb{};
    std::string_view id{};  ///< Of the checkpoint, as passed to the verb.
    int rank = 0;
    int ranks = 1;
    /// The same for all events from `begin` to `end`; unique in the process.
    std::uint64_t operation = 0;
    /// Of a save: "plan", "plan for all", "stage", "write", "commit", "sweep", "clean up". Of a
    /// load: "read metadata", "plan", "plan for all", "read values", "read", "broadcast". Empty in
    /// `begin` and `end`.
    std::string_view phase{};
    clock::time_point began{};  ///< The phase; in `begin` and `end` the verb.
    clock::time_point at{};     ///< Now.
    /// Bytes that this phase has moved on this rank. A `StorageWriter` counts what its format adds,
    /// so that it may be slightly more than the total; if a part reports no bytes, all are counted
    /// at the end.
    std::uint64_t bytes = 0;
    /// Bytes of content that this phase moves on this rank; 0: unknown, or none.
    std::uint64_t total_bytes = 0;
    std::uint64_t items = 0;          ///< Boxes of tensors and values that the phase moves.
    std::exception_ptr failure = {};  ///< In `end`: why the verb failed; null if it succeeded.

    std::chrono::nanoseconds took() const noexcept { return at - began; }
};

}  // namespace cairn

#endif
