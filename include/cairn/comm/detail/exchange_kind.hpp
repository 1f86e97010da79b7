// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_EXCHANGE_KIND_HPP
#define CAIRN_COMM_DETAIL_EXCHANGE_KIND_HPP

#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::detail {

/// The operations of a group, which checks that all ranks call the same one.
enum class exchange_kind : std::uint8_t { gather, scatter, broadcast, all_gather, duplicate };

inline std::string name_of(exchange_kind k, int root) {
    constexpr const char* names[] = {"gather", "scatter", "broadcast", "all_gather", "duplicate"};
    std::string s = names[static_cast<std::size_t>(k)];
    if (k != exchange_kind::all_gather && k != exchange_kind::duplicate)
        s += " with root " + std::to_string(root);
    return s;
}

/// Returns what is wrong with this rank's call, regardless of the other ranks' calls.
inline std::optional<error> wrong_call(exchange_kind kind, int root, std::size_t messages, int rank,
                                       int size) {
    if (root < 0 || root >= size)
        return error(errc::invalid_argument,
                     {.rank = rank,
                      .expected = "a root from 0 to " + std::to_string(size - 1),
                      .found = std::to_string(root)});
    if (kind == exchange_kind::scatter && root == rank &&
        messages != static_cast<std::size_t>(size))
        return error(errc::invalid_argument,
                     {.rank = rank,
                      .expected = std::to_string(size) + " messages, one per rank",
                      .found = std::to_string(messages)});
    return {};
}

}  // namespace cairn::detail

#endif
