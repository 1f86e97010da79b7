// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DATA_NAMES_HPP
#define CAIRN_STORAGE_DETAIL_DATA_NAMES_HPP

#include <cairn/object_store/detail/names.hpp>

#include <cstddef>
#include <string>
#include <string_view>

/// The names of a checkpoint's files, and what a name alone shows about the writer of a file.
namespace cairn::detail {

inline constexpr std::string_view metadata_name = ".metadata";
inline constexpr std::string_view quarantined_name = ".metadata.quarantined";
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

inline constexpr std::string_view data_suffix = ".distcp";

/// `__R_N.distcp`: what PyTorch calls a data file.
inline std::string default_data_name(int rank, int n) {
    return "__" + std::to_string(rank) + "_" + std::to_string(n) + std::string(data_suffix);
}
/// Whether that is such a name of that rank, with or without a save id.
inline bool is_data_of(int rank, std::string_view name) {
    return name.starts_with("__" + std::to_string(rank) + "_");
}
inline bool is_default_data_name(std::string_view name) {
    constexpr std::string_view begin = "__", digits = "0123456789";
    if (!name.starts_with(begin) || !name.ends_with(data_suffix)) return false;
    name.remove_prefix(begin.size());
    name.remove_suffix(data_suffix.size());
    auto const middle = name.find('_');
    auto const number = [&](std::string_view s) {
        return !s.empty() && s.find_first_not_of(digits) == s.npos;
    };
    return middle != name.npos && number(name.substr(0, middle)) && number(name.substr(middle + 1));
}

/// The stem of a data file's name, which a `file_name` may give with the suffix or without it.
inline std::string_view stem_of(std::string_view name) {
    if (name.ends_with(data_suffix)) name.remove_suffix(data_suffix.size());
    return name;
}
/// `STEM.<save id>.distcp`: the name of every data file that cairn writes. The id is random, so no
/// file of another save or of a user has it.
inline std::string data_name(std::string_view name, std::string_view save_id) {
    std::string full(stem_of(name));
    full.append(".").append(save_id).append(data_suffix);
    return full;
}
/// Returns the save id in such a name; empty for all others.
inline std::string_view id_in(std::string_view name) {
    constexpr std::size_t length = 32;
    name = name.substr(name.rfind('/') + 1);
    if (!name.ends_with(data_suffix)) return {};
    name.remove_suffix(data_suffix.size());
    if (name.size() < length + 2 || name[name.size() - length - 1] != '.') return {};
    name = name.substr(name.size() - length);
    return is_save_id(name) ? name : std::string_view();
}

/// Returns `NAME.EXTENSION` for `NAME.<save id>.EXTENSION`, a file of an export to a place that
/// cannot rename; all others as they are.
inline std::string without_save_id(std::string name) {
    constexpr std::size_t id = 32;
    auto const end = name.rfind('.');
    if (end != name.npos && end > id && name[end - id - 1] == '.' &&
        is_save_id(std::string_view(name).substr(end - id, id)))
        name.erase(end - id - 1, id + 1);
    return name;
}

/// Whether version b1c5de8 gave this name to a data file of that save, over another checkpoint:
/// `STEM.<save id>` and the end of the name, of any kind.
inline bool is_earlier_data_name(std::string_view name, const std::string& save_id) {
    if (!is_save_id(save_id)) return false;
    auto const last = name.substr(name.rfind('/') + 1);
    auto const at = last.rfind("." + save_id);
    if (at == last.npos || at == 0) return false;
    auto const end = last.substr(at + 1 + save_id.size());
    return end.empty() || (end.front() == '.' && end.find('.', 1) == end.npos);
}

/// Whether a data file may have this name: within the place, with no hidden segment. Names read
/// from a file are untrusted.
inline bool is_data_name(std::string_view name) {
    return is_object_name(name) && name.front() != '.' && name.find("/.") == name.npos;
}

}  // namespace cairn::detail

#endif
