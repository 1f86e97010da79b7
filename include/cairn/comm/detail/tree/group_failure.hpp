// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_GROUP_FAILURE_HPP
#define CAIRN_COMM_DETAIL_TREE_GROUP_FAILURE_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

/// Encodes why a group failed, for all its ranks. Long texts are truncated: every rank sends it to
/// all its neighbours.
inline message encode_group_failure(const error& why, int rank) {
    constexpr std::size_t most = 4096;
    rank_failure f{why.code(), why.context(), {}};
    if (f.where.rank < 0) f.where.rank = rank;
    for (auto* s :
         {&f.where.fqn, &f.where.file, &f.where.expected, &f.where.found, &f.where.remedy})
        if (s->size() > most) s->replace(most, s->npos, " ...");
    wire_writer w;
    encode(w, f);
    return w.take();
}
inline error decode_group_failure(std::span<const std::byte> note) {
    wire_reader r(note);
    auto why = decode_failure(r);
    return {why.code, std::move(why.where)};
}

inline error left(int rank) {
    return {errc::rank_failed,
            {.rank = rank, .found = "rank " + std::to_string(rank) + " left the group"}};
}
/// Whether a rank that had no call under way when the group failed gets this error in its next one.
/// Otherwise that rank was the cause, and gets @ref errc::poisoned.
inline bool is_news(const error& why) {
    return why.code() == make_error_code(errc::rank_failed) ||
           why.code() == make_error_code(errc::cancelled);
}
inline error poisoned(const error& why, int rank) {
    return {errc::poisoned, {.rank = rank, .found = why.what(), .remedy = "make a new group"}};
}

}  // namespace cairn::detail

#endif
