// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_OLDER_KEYS_IPP
#define CAIRN_STATE_IMPL_OLDER_KEYS_IPP

#include <cairn/state/detail/older_keys.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

namespace cairn::detail::older_keys {

CAIRN_DECL std::optional<std::string> key_name(const value& key) {
    if (auto const* s = key.get_if<std::string>()) return *s;
    if (auto const* i = key.get_if<std::int64_t>()) return std::to_string(*i);
    if (auto const* b = key.get_if<bool>()) return *b ? "True" : "False";
    if (key.is_none()) return "None";
    if (auto const* i = key.get_if<big_int>()) return i->to_string();
    return std::nullopt;
}

CAIRN_DECL bool assignable(const state_list& l) {
    for (auto const& n : l) {
        if (n.is_list() ? !assignable(n.as_list()) : n.is_value() && !std::get<4>(n.raw())->set)
            return false;
    }
    return true;
}

CAIRN_DECL void assign(const node& n, const value& v, bool only_check,
                       std::vector<std::string>* missing) {
    if (n.is_dict()) return assign(n.as_dict(), v, only_check, missing);
    if (n.is_list()) return assign(n.as_list(), v, only_check, missing);
    if (only_check) return n.check(v);
    n.assign(v);
}

/// Assigns an entry, and prepends its name to the missing names below it.
inline void assign_below(const std::string& name, const node& n, const value& v, bool only_check,
                         std::vector<std::string>* missing) {
    auto const before = missing != nullptr ? missing->size() : 0;
    assign(n, v, only_check, missing);
    for (auto i = before; missing != nullptr && i < missing->size(); ++i)
        (*missing)[i].insert(0, name + ".");
}

CAIRN_DECL void assign(const state_dict& d, const value& v, bool only_check,
                       std::vector<std::string>* missing) {
    auto const* items = v.get_if<value::dict_t>();
    if (items == nullptr)
        throw error(errc::kind_mismatch,
                    {.expected = "a dict", .found = std::string(v.kind_name())});
    std::map<std::string, const value*> stored;
    for (auto const& [k, x] : items->items)
        if (auto name = key_name(k)) stored.insert_or_assign(std::move(*name), &x);
    for (auto const& [key, n] : d) {
        auto const found = stored.find(key);
        if (found != stored.end())
            assign_below(key, n, *found->second, only_check, missing);
        else if (missing != nullptr)
            missing->push_back(key);
        else if (!n.is_value() || !std::get<4>(n.raw())->optional)
            throw error(errc::missing_key,
                        {.expected = "'" + key + "' in the dict that was stored whole",
                         .remedy = "set load_options::planner.partial, or correct the name"});
    }
}

CAIRN_DECL void assign(const state_list& l, const value& v, bool only_check,
                       std::vector<std::string>* missing) {
    auto const* items = v.get_if<value::list_t>();
    if (items == nullptr || (items->size() != l.size() && missing == nullptr))
        throw error(errc::kind_mismatch,
                    {.expected = "a list of " + std::to_string(l.size()),
                     .found = items == nullptr ? std::string(v.kind_name())
                                               : "a list of " + std::to_string(items->size())});
    for (std::size_t i = 0; i < l.size(); ++i) {
        if (i < items->size())
            assign_below(std::to_string(i), l[i], (*items)[i], only_check, missing);
        else
            missing->push_back(std::to_string(i));
    }
}

}  // namespace cairn::detail::older_keys

#endif
