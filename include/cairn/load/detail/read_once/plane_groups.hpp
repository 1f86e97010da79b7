// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_READ_ONCE_PLANE_GROUPS_HPP
#define CAIRN_LOAD_DETAIL_READ_ONCE_PLANE_GROUPS_HPP

#include <cairn/comm/detail/erased_data_plane.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A rank's position among a load's data planes; without a plane, none.
struct plane_place {
    bool given = false;
    int plane_id = 0;  ///< Which of the job's planes: all ranks of one have the same number.
    int rank = 0;      ///< Among the ranks of the plane.
    int size = 1;

    /// Whether the plane has all ranks of the job, numbered alike.
    bool is_whole(int job_rank, int job_size) const noexcept {
        return plane_id == 0 && rank == job_rank && size == job_size;
    }
    friend bool operator==(const plane_place&, const plane_place&) = default;
};

/// @param plane  Null: no plane.
inline plane_place place_in(const erased_data_plane* plane) {
    if (plane == nullptr) return {};
    return {true, plane->plane_id(), plane->rank(), plane->size()};
}
inline std::string to_string(const plane_place& p) {
    return "rank " + std::to_string(p.rank) + " of " + std::to_string(p.size) + " of data plane " +
           std::to_string(p.plane_id);
}

inline void put(wire_writer& w, const plane_place& p) {
    w.u8(p.given);
    for (int const i : {p.plane_id, p.rank, p.size}) w.svarint(i);
}
inline plane_place get_plane_place(wire_reader& r) {
    plane_place p;
    p.given = r.u8() != 0;
    for (int* i : {&p.plane_id, &p.rank, &p.size}) *i = static_cast<int>(r.svarint());
    return p;
}

/// Returns the job's ranks on each data plane, by their rank on it.
///
/// @param places  Of all ranks of the job.
/// @return Empty if no rank has a data plane.
/// @throws error errc::invalid_argument naming a rank: only some ranks have a plane, two are the
/// same rank of one plane, or a plane lacks a rank
inline std::vector<std::vector<int>> plane_groups(const std::vector<plane_place>& places) {
    auto const refuse = [](std::size_t rank, std::string expected, std::string found) {
        throw error(errc::invalid_argument,
                    {.rank = static_cast<int>(rank),
                     .expected = std::move(expected),
                     .found = std::move(found),
                     .remedy = "give each plane of some of the ranks its own `plane_id`"});
    };
    std::map<int, std::vector<int>> groups;
    for (std::size_t r = 0; r < places.size(); ++r) {
        auto const& p = places[r];
        if (p.given != places[0].given)
            throw error(errc::invalid_argument,
                        {.rank = static_cast<int>(r),
                         .expected = "a data plane on every rank, or on none",
                         .found = p.given ? "one here, and none on rank 0"
                                          : "none here, and one on rank 0"});
        if (!p.given) continue;
        auto& members = groups[p.plane_id];
        if (p.size < 1 || static_cast<std::size_t>(p.size) > places.size() || p.rank < 0 ||
            p.rank >= p.size)
            refuse(r, "a data plane of the job's " + std::to_string(places.size()) + " ranks",
                   to_string(p));
        if (members.empty()) members.assign(static_cast<std::size_t>(p.size), -1);
        if (members.size() != static_cast<std::size_t>(p.size))
            refuse(r,
                   "data plane " + std::to_string(p.plane_id) + " to have " +
                       std::to_string(members.size()) + " ranks, as on other ranks",
                   to_string(p));
        auto& seat = members[static_cast<std::size_t>(p.rank)];
        if (seat >= 0)
            refuse(r, "a different rank of the data plane than rank " + std::to_string(seat),
                   to_string(p));
        seat = static_cast<int>(r);
    }
    std::vector<std::vector<int>> out;
    for (auto& [group, members] : groups) {
        auto const lacking = std::find(members.begin(), members.end(), -1);
        if (lacking != members.end()) {
            auto const there =
                std::find_if(members.begin(), members.end(), [](int r) { return r >= 0; });
            refuse(static_cast<std::size_t>(*there),
                   "all ranks of data plane " + std::to_string(group) + " in this load",
                   "no rank that is its rank " + std::to_string(lacking - members.begin()));
        }
        out.push_back(std::move(members));
    }
    return out;
}

}  // namespace cairn::detail

#endif
