// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_DAMAGE_HPP
#define CAIRN_DETAIL_DAMAGE_HPP

#include <cairn/error.hpp>

#include <algorithm>
#include <array>
#include <system_error>

namespace cairn::detail {

/// Whether an error means that stored data is damaged. It does not if storage failed, memory did
/// not suffice, or this version cannot read the data: the checkpoint may then be intact. This is
/// the only list of such errors.
inline bool is_damage(std::error_code code) {
    constexpr std::array damage{errc::corrupt, errc::checksum_mismatch, errc::invalid_plan,
                                errc::missing_file, errc::foreign_file};
    return std::any_of(damage.begin(), damage.end(),
                       [&](errc c) { return code == make_error_code(c); });
}

/// Returns what a function that reads returns. After damage it is called once more: a network, or
/// memory, may have changed what was read.
template <class F>
auto once_more_if_damaged(F&& read) {
    try {
        return read();
    } catch (const error& e) {
        if (!is_damage(e.code())) throw;
    }
    return read();
}

}  // namespace cairn::detail

#endif
