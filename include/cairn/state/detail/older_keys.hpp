// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_OLDER_KEYS_HPP
#define CAIRN_STATE_DETAIL_OLDER_KEYS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/state_dict.hpp>

#include <optional>
#include <string>
#include <vector>

namespace cairn::detail::older_keys {

/// Returns Python's `str(key)`; nullopt for keys that cannot occur in a state dict.
CAIRN_DECL std::optional<std::string> key_name(const value& key);

/// Whether every value of a list of values can be loaded into.
CAIRN_DECL bool assignable(const state_list& l);

/// Assigns one loaded value to everything that it stands for.
/// @param only_check  Changes nothing; throws what an assignment would throw, as far as that can be
///                    checked in advance.
/// @param missing     Receives the names of what `v` lacks, relative to `n`; null: it is an error.
/// @throws error errc::kind_mismatch, errc::missing_key or errc::invalid_state if it does not fit
CAIRN_DECL void assign(const node& n, const value& v, bool only_check,
                       std::vector<std::string>* missing = nullptr);
/// Assigns a loaded mapping. Keys that `d` lacks are ignored.
CAIRN_DECL void assign(const state_dict& d, const value& v, bool only_check = false,
                       std::vector<std::string>* missing = nullptr);
CAIRN_DECL void assign(const state_list& l, const value& v, bool only_check = false,
                       std::vector<std::string>* missing = nullptr);

}  // namespace cairn::detail::older_keys

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/older_keys.ipp>
#endif

#endif
