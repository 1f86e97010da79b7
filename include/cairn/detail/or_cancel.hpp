// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_OR_CANCEL_HPP
#define CAIRN_DETAIL_OR_CANCEL_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Returns this rank's number in a group; -1 if the group throws.
template <class Group>
int rank_of(const Group& group) noexcept {
    try {
        return group.rank();
    } catch (...) {
        return -1;
    }
}

/// Runs a step; an exception of any type becomes an @ref error.
/// @param rank  This rank; -1 if it is not known.
template <class F>
std::invoke_result_t<F> or_error(int rank, F&& f) {
    try {
        return std::forward<F>(f)();
    } catch (...) {
        std::rethrow_exception(error_of(std::current_exception(), rank));
    }
}
/// Runs a step whose outcome is not sent to the other ranks. If it fails, the group is cancelled,
/// so that they do not wait for this rank, and an exception of any type becomes an @ref error.
template <class Group, class F>
std::invoke_result_t<F> or_cancel(Group& group, int rank, F&& f) {
    try {
        return std::forward<F>(f)();
    } catch (...) {
        group.cancel();
        std::rethrow_exception(error_of(std::current_exception(), rank));
    }
}
template <class Group, class F>
std::invoke_result_t<F> or_cancel(Group& group, F&& f) {
    try {
        return std::forward<F>(f)();
    } catch (...) {
        auto const rank = rank_of(group);
        group.cancel();
        std::rethrow_exception(error_of(std::current_exception(), rank));
    }
}
/// @param group  Null: no other rank.
template <class Group, class F>
std::invoke_result_t<F> or_cancel(Group* group, F&& f) {
    if (group == nullptr) return or_error(0, std::forward<F>(f));
    return or_cancel(*group, std::forward<F>(f));
}

}  // namespace cairn::detail

#endif
