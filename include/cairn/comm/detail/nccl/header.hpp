// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_NCCL_HEADER_HPP
#define CAIRN_COMM_DETAIL_NCCL_HEADER_HPP

#include <cairn/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The header that every rank sends before a broadcast; 64 bytes in memory order, because all hosts
/// with CUDA are little-endian.
///
/// Each broadcast has two: `call` describes this rank's call, `ready` confirms that the rank is
/// still alive once all have called. All ranks see all headers, so that they reach the same result.
struct nccl_header {
    enum class stage_type : std::uint8_t { call = 1, ready };

    std::array<char, 4> magic{'c', 'r', 'n', 'p'};
    stage_type stage = stage_type::call;
    std::array<std::uint8_t, 3> unused{};
    std::int32_t root = 0;
    std::int32_t gave_up = 0;  ///< An errc if this rank does not take part; otherwise 0.
    std::int64_t plane_id = 0;
    std::uint64_t round = 0;    ///< Index of the broadcast on the plane, from 0.
    std::uint64_t staging = 0;  ///< Bytes of each piece except the last.
    std::uint64_t size = 0;     ///< Of the memory that this rank passed.
    std::array<std::uint64_t, 2> room{};
};
static_assert(sizeof(nccl_header) == 64 && std::is_trivially_copyable_v<nccl_header>);

/// Lists the headers of the first ranks, for an error.
template <class Say>
std::string nccl_said(const std::vector<nccl_header>& all, Say say) {
    constexpr std::size_t most = 8;
    std::string s;
    for (std::size_t r = 0; r < std::min(most, all.size()); ++r)
        s += (r == 0 ? "rank " : ", rank ") + std::to_string(r) + " " + say(all[r]);
    return all.size() > most ? s + ", and " + std::to_string(all.size() - most) + " more" : s;
}

/// Returns if all ranks are in the same broadcast and none has failed.
/// @throws error the same on all ranks: errc::invalid_argument if their calls differ, otherwise the
/// failure of one rank
inline void nccl_agree(const std::vector<nccl_header>& all) {
    auto const wrong = [](std::string expected, std::string found) {
        return error(errc::invalid_argument, {.expected = std::move(expected),
                                              .found = std::move(found),
                                              .remedy = "make a new data plane"});
    };
    auto const& first = all.front();
    for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r].magic != nccl_header{}.magic)
            throw wrong("every rank to call a broadcast of cairn",
                        "other bytes from rank " + std::to_string(r));
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].gave_up == 0) continue;
        auto const why = static_cast<errc>(all[r].gave_up);
        // The deadline was the other rank's own; for this rank the plane is unusable.
        auto const code = why == errc::cancelled || why == errc::invalid_argument ? why
                          : why == errc::timed_out || why == errc::poisoned       ? errc::poisoned
                                                                            : errc::rank_failed;
        throw error(code,
                    {.rank = static_cast<int>(r),
                     .found = "that the rank ended its call: " + make_error_code(why).message(),
                     .remedy = "make a new data plane"});
    }
    for (auto const& h : all) {
        if (h.plane_id != first.plane_id || h.staging != first.staging)
            throw wrong("the same plane_id and nccl_plane_options everywhere",
                        nccl_said(all, [](const nccl_header& x) {
                            return "has plane_id " + std::to_string(x.plane_id) + ", pieces of " +
                                   std::to_string(x.staging) + " bytes";
                        }));
        if (h.round != first.round || h.stage != first.stage)
            throw wrong("all ranks at the same broadcast of one plane",
                        nccl_said(all, [](const nccl_header& x) {
                            return "at broadcast " + std::to_string(x.round);
                        }));
        if (h.root != first.root || h.size != first.size)
            throw wrong("all ranks to call the same broadcast",
                        nccl_said(all, [](const nccl_header& x) {
                            return "with root " + std::to_string(x.root) + ", " +
                                   std::to_string(x.size) + " bytes";
                        }));
    }
}

}  // namespace cairn::detail

#endif
