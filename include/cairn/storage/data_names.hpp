// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DATA_NAMES_HPP
#define CAIRN_STORAGE_DATA_NAMES_HPP

#include <cairn/object_store/names.hpp>

#include <cstddef>
#include <string>
#include <string_view>

/// The names of a checkpoint's files, and what a name alone shows about the file's writer.
namespace cairn::detail {

inline constexpr std::string_view metadata_name = ".metadata";
inline constexpr std::string_view intent_prefix = ".saving.";

/// In the format of `new_save_id`: 32 hex digits.
inline bool is_save_id(std::string_view s) {
    return s.size() == 32 && s.find_first_not_of("0123456789abcdef") == s.npos;
}

/// `.saving.<save id>`
inline std::string intent_name(const std::string& save_id) {
    return std::string(intent_prefix) + save_id;
}
inline bool is_intent_name(std::string_view name) {
    return name.starts_with(intent_prefix) && is_save_id(name.substr(intent_prefix.size()));
}

/// `__R_N.distcp`
inline std::string default_data_name(int rank, int n) {
    return "__" + std::to_string(rank) + "_" + std::to_string(n) + ".distcp";
}
inline bool is_default_data_name(std::string_view name) {
    constexpr std::string_view begin = "__", end = ".distcp", digits = "0123456789";
    if (!name.starts_with(begin) || !name.ends_with(end)) return false;
    name.remove_prefix(begin.size());
    name.remove_suffix(end.size());
    auto const middle = name.find('_');
    auto const number = [&](std::string_view s) {
        return !s.empty() && s.find_first_not_of(digits) == s.npos;
    };
    return middle != name.npos && number(name.substr(0, middle)) && number(name.substr(middle + 1));
}

/// `__0_0.distcp` → `__0_0.<save id>.distcp`
inline std::string name_with_id(const std::string& name, const std::string& save_id) {
    auto const slash = name.rfind('/');
    auto const dot = name.rfind('.');
    if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
        return name + "." + save_id;
    return name.substr(0, dot) + "." + save_id + name.substr(dot);
}
/// Whether a name is a possible result of `name_with_id(…, save_id)`. The id is random, so no file
/// of another save or user has it.
inline bool has_id(std::string_view name, std::string_view save_id) {
    if (!is_save_id(save_id)) return false;
    auto const last = name.substr(name.rfind('/') + 1);
    auto const at = last.rfind("." + std::string(save_id));
    if (at == last.npos || at == 0) return false;
    auto const rest = last.substr(at + 1 + save_id.size());
    return rest.empty() || (rest.front() == '.' && rest.find('.', 1) == rest.npos);
}
/// Returns the save id in such a name; empty if there is none.
inline std::string_view id_in(std::string_view name) {
    name = name.substr(name.rfind('/') + 1);
    for (int parts = 0; parts < 2; ++parts) {  // it is the last, or the last but one
        auto const dot = name.rfind('.');
        if (dot == name.npos || dot == 0) break;
        auto const part = name.substr(dot + 1);
        if (is_save_id(part)) return part;
        name = name.substr(0, dot);
    }
    return {};
}

/// Whether a data file may have this name: within the place, with no hidden segment. Names read
/// from a file are untrusted.
inline bool is_data_name(std::string_view name) {
    return is_object_name(name) && name.front() != '.' && name.find("/.") == name.npos;
}

}  // namespace cairn::detail

#endif
