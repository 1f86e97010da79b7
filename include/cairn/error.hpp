// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_ERROR_HPP
#define CAIRN_ERROR_HPP

#include <cairn/detail/config.hpp>

#include <boost/system/error_category.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace cairn {

using boost::system::error_code;

/// Error codes, independent of where the error occurred. One enumerator per remedy.
enum class errc {
    /// The state asks for a key that the checkpoint does not hold, or for elements of a tensor that
    /// it does not hold. Remedy: `load_options::planner.partial`, or fix the name; ask for less.
    missing_key = 1,
    /// The checkpoint holds a key that the state does not ask for, and `strict` is on.
    unexpected_key,
    /// Stored and wanted shapes differ.
    shape_mismatch,
    /// Stored and wanted dtypes differ. Remedy: a conversion policy.
    dtype_mismatch,
    /// A tensor was stored where a value is wanted or vice versa, or a value of another kind.
    kind_mismatch,
    /// The user's state cannot be saved or loaded into (const target, bad view, duplicate name).
    invalid_state,
    /// Plans of the ranks contradict each other: bounds, overlap, holes, or two claims on one name.
    invalid_plan,
    /// Bytes read do not match the checksum recorded when they were written.
    checksum_mismatch,
    /// Bytes cannot be what they claim to be: truncated, malformed, out of bounds.
    corrupt,
    /// Well-formed, but of a kind that cairn refuses or does not know, e.g. an unknown class.
    unsupported,
    /// A data file belongs to another save than the metadata that names it.
    foreign_file,
    /// There is no checkpoint: the directory or its `.metadata` is missing.
    not_found,
    /// A checkpoint exists and `overwrite` is off, or a name is taken.
    already_exists,
    /// Another save committed to the same place while this one ran, or while a load or a conversion
    /// read from it; or somebody replaced or wrote a file that was being read.
    concurrent_save,
    /// The storage failed; the operating system's own code is in the text.
    io,
    /// Another rank failed; its own error is listed in `failures()`.
    rank_failed,
    /// A backend dropped its completion without calling it, or the executor of a background save or
    /// load ended before it did.
    abandoned,
    /// A deadline expired.
    timed_out,
    /// The group is unusable: an exchange was interrupted.
    poisoned,
    /// The save may or may not have been committed; nothing was deleted.
    outcome_unknown,
    /// A call that violates a documented requirement.
    invalid_argument,
    /// The caller cancelled the operation.
    cancelled,
    /// A data file of a checkpoint is missing: the checkpoint exists but is incomplete. Remedy:
    /// restore the file, or load another checkpoint.
    missing_file,
    /// A stored number does not fit: out of range, or a float where an integer is wanted. Remedy:
    /// load it into a type that holds it.
    value_mismatch,
    /// Ranks hold different content as replicas of one tensor. Remedy: find the cause, or save it
    /// `per_rank`.
    replicas_differ,
    /// A device (a GPU) or its driver failed; its own words are in the text.
    device_failed,
    /// A tensor changed while a save used it (`save_options::detect_changes`). The checkpoint that
    /// was there before is unchanged.
    state_changed,
    /// The storage refuses access. Remedy: check the permissions.
    permission_denied,
};

/// The category of @ref errc. Its name is "cairn".
CAIRN_DECL const boost::system::error_category& category() noexcept;
CAIRN_DECL error_code make_error_code(errc e) noexcept;

/// Where an error occurred and how to fix it; empty members are unknown or not applicable.
struct error_context {
    int rank = -1;           ///< The rank that failed; -1 when not known.
    std::string fqn{};       ///< Fully qualified name of the tensor or value of the state.
    std::string file{};      ///< Storage object or file, as the storage names it.
    std::string expected{};  ///< What was expected.
    std::string found{};     ///< What was found instead.
    std::string remedy{};    ///< What the caller can do.
};

/// An inclusive range of ranks, from `first` to `last`.
struct rank_range {
    int first = 0;
    int last = 0;
    friend bool operator==(const rank_range&, const rank_range&) = default;
};

/// One rank's own failure, as reported to every rank; or that of several ranks that failed alike.
struct rank_failure {
    error_code code;
    error_context where;  ///< Of the first of them. Long texts are cut.
    std::string text;     ///< The failing rank's `what()`.
    /// All ranks that failed alike, in order; empty: `where.rank` alone.
    std::vector<rank_range> ranks{};

    /// Returns the number of ranks that failed alike.
    std::size_t count() const noexcept;
};

/// The only exception type that cairn throws for run-time failures.
///
/// `code()` is for programs, `what()` for people, `context()` for both. An error that crossed ranks
/// lists each failed rank's own error in `failures()`, in rank order; equal failures are merged,
/// and beyond 64 kinds only their ranks are listed.
class error : public boost::system::system_error {
public:
    error(error_code ec, error_context where);
    error(errc e, error_context where);

    /// Combines the failures of one or more ranks. Its code is that of the first one, or @ref
    /// errc::rank_failed if there are none.
    error(std::vector<rank_failure> failures, bool state_modified);

    const char* what() const noexcept override;
    const error_context& context() const noexcept { return context_; }
    const std::vector<rank_failure>& failures() const noexcept { return failures_; }
    /// True when a load had begun to write into the user's memory.
    bool state_modified() const noexcept { return state_modified_; }

    /// Returns this error as a failure of `rank`, which is filled in unless the error names one.
    rank_failure as_failure(int rank) const;

private:
    /// Returns one sentence of a few kB at most, however long a name or a value is.
    static std::string describe(const std::string& what, const error_context& c);

    error_context context_;
    std::vector<rank_failure> failures_;
    std::string text_;
    bool state_modified_ = false;
};

namespace detail {

/// Returns an error with the members of `more` where its own context has none.
CAIRN_DECL error completed(const error& e, error_context more);

}  // namespace detail
}  // namespace cairn

template <>
struct boost::system::is_error_code_enum<cairn::errc> : std::true_type {};

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/error.ipp>
#endif

#endif
