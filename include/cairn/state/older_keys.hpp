// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_OLDER_KEYS_HPP
#define CAIRN_STATE_OLDER_KEYS_HPP

#include <cairn/state/state_dict.hpp>

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace cairn::detail::older_keys {

/// Python's `str(key)`; nothing for keys that no state dict has.
inline std::optional<std::string> key_name(const value& key) {
    if (auto const* s = key.get_if<std::string>()) return *s;
    if (auto const* i = key.get_if<std::int64_t>()) return std::to_string(*i);
    if (auto const* b = key.get_if<bool>()) return *b ? "True" : "False";
    if (key.is_none()) return "None";
    if (auto const* i = key.get_if<big_int>()) return i->to_string();
    return std::nullopt;
}

/// Whether every value of a list of values can be loaded into.
inline bool assignable(const state_list& l) {
    for (auto const& n : l) {
        if (n.is_list() ? !assignable(n.as_list())
                        : n.is_value() && !std::get<4>(n.raw())->set)
            return false;
    }
    return true;
}

inline void assign(const state_dict& d, const value& v, bool only_check = false);
inline void assign(const state_list& l, const value& v, bool only_check = false);

/// Gives one loaded object to all that it stands for.
/// @param only_check  Changes nothing; throws as far as is known what it would throw.
/// @throws error errc::kind_mismatch, errc::missing_key or errc::invalid_state where it does not
/// fit
inline void assign(const node& n, const value& v, bool only_check) {
    if (n.is_dict()) return assign(n.as_dict(), v, only_check);
    if (n.is_list()) return assign(n.as_list(), v, only_check);
    if (only_check) return n.check(v);
    n.assign(v);
}
/// What only the loaded object has is left out: it has no place to go.
inline void assign(const state_dict& d, const value& v, bool only_check) {
    auto const* items = v.get_if<value::dict_t>();
    if (items == nullptr)
        throw error(errc::kind_mismatch,
                    {.expected = "a dict", .found = std::string(v.kind_name())});
    std::map<std::string, const value*> stored;
    for (auto const& [k, x] : items->items)
        if (auto name = key_name(k)) stored.insert_or_assign(std::move(*name), &x);
    for (auto const& [key, n] : d) {
        auto const found = stored.find(key);
        if (found == stored.end())
            throw error(errc::missing_key,
                        {.expected = "'" + key + "' in the dict that was stored whole"});
        assign(n, *found->second, only_check);
    }
}
inline void assign(const state_list& l, const value& v, bool only_check) {
    auto const* items = v.get_if<value::list_t>();
    if (items == nullptr || items->size() != l.size())
        throw error(errc::kind_mismatch,
                    {.expected = "a list of " + std::to_string(l.size()),
                     .found = items == nullptr
                                  ? std::string(v.kind_name())
                                  : "a list of " + std::to_string(items->size())});
    for (std::size_t i = 0; i < l.size(); ++i) assign(l[i], (*items)[i], only_check);
}

}  // namespace cairn::detail::older_keys

#endif
