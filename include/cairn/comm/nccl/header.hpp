// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_HEADER_HPP
#define CAIRN_COMM_NCCL_HEADER_HPP

#include <cairn/comm/exchange_kind.hpp>
#include <cairn/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What every rank says before bytes travel; 64 bytes, as they lie in memory: CUDA's hosts are all
/// little-endian.
///
/// Each exchange has two: `call` says what this rank was asked for, `ready` that it has room for
/// what will come. All ranks see all of them, so that they come to the same end.
struct nccl_header {
    enum class stage_type : std::uint8_t { call = 1, ready };

    std::array<char, 4> magic{'c', 'r', 'n', 'n'};
    stage_type stage = stage_type::call;
    exchange_kind kind = exchange_kind::barrier;
    std::uint16_t unused = 0;
    std::int32_t root = 0;
    std::int32_t gave_up = 0;  ///< An errc: this rank takes no part in what comes. 0: it does.
    std::uint64_t epoch = 0;
    std::uint64_t round = 0;  ///< Which exchange of the group, from 0.
    std::uint64_t slice = 0;  ///< Bytes of staging for one rank: pieces are of this size.
    std::uint64_t size = 0;   ///< Bytes of this rank's message.
    std::array<std::uint64_t, 2> room{};
};
static_assert(sizeof(nccl_header) == 64 && std::is_trivially_copyable_v<nccl_header>);

template <class Say>
std::string nccl_said(const std::vector<nccl_header>& all, Say say) {
    std::string s;
    for (std::size_t r = 0; r < all.size(); ++r)
        s += (r == 0 ? "rank " : ", rank ") + std::to_string(r) + " " + say(all[r]);
    return s;
}

/// Comes back when all ranks are in the same exchange, and none gave up.
/// @throws error the same on all ranks: errc::invalid_argument when they were called differently,
/// else why somebody gave up
inline void nccl_agree(const std::vector<nccl_header>& all) {
    auto const wrong = [](std::string expected, std::string found) {
        return error(errc::invalid_argument, {.expected = std::move(expected),
                                              .found = std::move(found),
                                              .remedy = "make a new group"});
    };
    auto const& first = all.front();
    for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r].magic != nccl_header{}.magic)
            throw wrong("an exchange of cairn's on every rank",
                        "other bytes from rank " + std::to_string(r));
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].gave_up == 0) continue;
        auto const why = static_cast<errc>(all[r].gave_up);
        // A deadline was that rank's own; what is left of the group is of no use to this one.
        auto const code = why == errc::cancelled || why == errc::invalid_argument ? why
                          : why == errc::timed_out || why == errc::poisoned ? errc::poisoned
                                                                            : errc::rank_failed;
        throw error(code, {.rank = static_cast<int>(r),
                           .found = "that the rank gave up: " + make_error_code(why).message(),
                           .remedy = "make a new group"});
    }
    for (auto const& h : all) {
        if (h.epoch != first.epoch || h.slice != first.slice)
            throw wrong("the same nccl_options and number of ranks everywhere",
                        nccl_said(all, [](const nccl_header& x) {
                            return "has epoch " + std::to_string(x.epoch) + ", slices of " +
                                   std::to_string(x.slice) + " bytes";
                        }));
        if (h.round != first.round || h.stage != first.stage)
            throw wrong("all ranks at the same exchange of one group",
                        nccl_said(all, [](const nccl_header& x) {
                            return "at exchange " + std::to_string(x.round);
                        }));
        if (h.kind != first.kind || h.root != first.root)
            throw wrong("all ranks to call the same exchange",
                        nccl_said(all, [](const nccl_header& x) {
                            return x.kind > exchange_kind::barrier
                                       ? "in none that there is"
                                       : "in " + name_of(x.kind, x.root);
                        }));
    }
}

}  // namespace cairn::detail

#endif
