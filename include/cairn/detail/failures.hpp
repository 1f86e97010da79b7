// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FAILURES_HPP
#define CAIRN_DETAIL_FAILURES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail {

class wire_reader;
class wire_writer;

/// Converts one rank's exception to a failure that can be sent.
CAIRN_DECL rank_failure failure_from(const std::exception_ptr& e, int rank);

/// Returns all failures of an exception: those of each rank, if it was sent between ranks.
CAIRN_DECL std::vector<rank_failure> failures_of(const std::exception_ptr& e, int rank);

/// Whether what has failed may have happened, or may still happen (@ref errc::outcome_unknown).
CAIRN_DECL bool is_in_doubt(const std::exception_ptr& e) noexcept;

/// Returns a readable text for an exception of any type.
CAIRN_DECL std::string text_of(const std::exception_ptr& e);

CAIRN_DECL void encode(wire_writer& w, const rank_failure& f);

/// Converts an exception of any type to an @ref error that names a rank. Without the memory for
/// that, returns the `std::bad_alloc`.
CAIRN_DECL std::exception_ptr error_of(const std::exception_ptr& e, int rank) noexcept;

CAIRN_DECL rank_failure decode_failure(wire_reader& r);

struct outcome {
    std::vector<rank_failure> failures{};
    std::vector<std::byte> payload{};
    /// There are failures, the same for all ranks; they follow as one message to all.
    bool failures_follow = false;
};

/// Runs this rank's share of a step, which returns what it sends to the others; an exception
/// becomes this rank's failure.
template <class F>
outcome attempt(int rank, F&& f) {
    outcome o;
    try {
        o.payload = std::forward<F>(f)();
    } catch (...) {
        o.failures.push_back(failure_from(std::current_exception(), rank));
    }
    return o;
}

/// Makes failures of what a part says is in doubt (@ref errc::outcome_unknown), in a step after
/// which the operation can still be given up: nothing has happened yet that others rely on.
CAIRN_DECL void settle(outcome& o);
/// Returns what such a failure is then.
CAIRN_DECL error settled_error(error_context where);

/// Calls `f`, a part of such a step.
/// @throws error errc::io instead of errc::outcome_unknown
template <class F>
void settled(F&& f) {
    try {
        std::forward<F>(f)();
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::outcome_unknown)) throw;
        throw settled_error(e.context());
    }
}

/// The kind of a message of an exchange.
enum class outcome_kind : std::uint8_t { payload, failures, failures_follow };
inline constexpr std::uint8_t exchange_version = 2;

/// Encodes a message with either failures or a payload: what ranks exchange at each step.
CAIRN_DECL std::vector<std::byte> encode_outcome(const std::vector<rank_failure>& failures,
                                                 std::span<const std::byte> payload);
CAIRN_DECL std::vector<std::byte> encode_failures_follow();

CAIRN_DECL outcome decode_outcome(std::span<const std::byte> m);

/// Decodes all ranks' messages. Frees each when it is decoded: they may be large.
CAIRN_DECL std::vector<outcome> decode_outcomes(std::vector<std::vector<std::byte>> all);

/// Returns the failures in all ranks' messages, in rank order; equal ones are merged, and if there
/// are very many, only the first are listed. Empty if no rank failed.
CAIRN_DECL std::vector<rank_failure> collect_failures(const std::vector<outcome>& all);
/// @throws error with each failed rank's own error, if any failed; the state is unchanged
CAIRN_DECL void throw_failures(const std::vector<outcome>& all);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/failures.ipp>
#endif

#endif
