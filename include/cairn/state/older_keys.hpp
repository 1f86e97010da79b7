// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_OLDER_KEYS_HPP
#define CAIRN_STATE_OLDER_KEYS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/state_dict.hpp>

#include <optional>
#include <string>

namespace cairn::detail::older_keys {

/// Python's `str(key)`; nothing for keys that no state dict has.
CAIRN_DECL std::optional<std::string> key_name(const value& key);

/// Whether every value of a list of values can be loaded into.
CAIRN_DECL bool assignable(const state_list& l);

/// Gives one loaded object to all that it stands for.
/// @param only_check  Changes nothing; throws as far as is known what it would throw.
/// @throws error errc::kind_mismatch, errc::missing_key or errc::invalid_state where it does not
/// fit
CAIRN_DECL void assign(const node& n, const value& v, bool only_check);
/// What only the loaded object has is left out: it has no place to go.
CAIRN_DECL void assign(const state_dict& d, const value& v, bool only_check = false);
CAIRN_DECL void assign(const state_list& l, const value& v, bool only_check = false);

}  // namespace cairn::detail::older_keys

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/older_keys.ipp>
#endif

#endif
