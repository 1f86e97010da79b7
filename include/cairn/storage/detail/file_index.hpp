// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_INDEX_HPP
#define CAIRN_STORAGE_DETAIL_FILE_INDEX_HPP

#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Hugging Face's index of the files of a directory, e.g. `model.safetensors.index.json`.
struct file_index {
    std::string name{};
    std::map<std::string, std::string, std::less<>> file_of{};  ///< Of each tensor.

    /// @throws error errc::corrupt if it is none, or names files elsewhere
    file_index(any_store& place, std::string index, std::span<const std::byte> bytes)
        : name(std::move(index)), file_of(format::safetensors::weight_map(bytes)) {
        for (auto const& [fqn, file] : file_of)
            if (!is_object_name(file))
                throw error(errc::corrupt, {.fqn = fqn,
                                            .file = place.describe(name),
                                            .expected = "a file in its directory, or below",
                                            .found = "'" + file + "'"});
    }
    std::vector<std::string> files() const {
        std::set<std::string> all;
        for (auto const& [fqn, file] : file_of) all.insert(file);
        return {all.begin(), all.end()};
    }
    /// Whether it says that a tensor is in a file.
    bool places(std::string_view fqn, const std::string& file) const {
        auto const at = file_of.find(fqn);
        return at != file_of.end() && at->second == file;
    }
    /// @throws error errc::corrupt
    [[noreturn]] void refuse_without(any_store& place, const std::string& fqn) const {
        throw error(errc::corrupt, {.fqn = fqn,
                                    .file = place.describe(file_of.find(fqn)->second),
                                    .expected = "this tensor, because '" + place.describe(name) +
                                                "' says that it is here",
                                    .found = "none of this name",
                                    .remedy = "put the file back that belongs to the index"});
    }
};

/// Returns the index that counts in a directory; empty: none.
/// @param names  Of the indices in it.
/// @throws error errc::unsupported for several without the usual one
inline std::string chosen_index(any_store& place, const std::vector<std::string>& names,
                                std::string_view usual) {
    if (std::find(names.begin(), names.end(), usual) != names.end()) return std::string(usual);
    if (names.size() > 1)
        throw error(errc::unsupported, {.file = place.describe("."),
                                        .expected = "one index",
                                        .found = "'" + names[0] + "' and '" + names[1] + "'",
                                        .remedy = "keep the other one elsewhere"});
    return names.empty() ? std::string() : names[0];
}

/// The name of one file of several, e.g. `model-00001-of-00003.safetensors`.
struct shard_name {
    std::string_view before{};  ///< E.g. `model-`.
    std::size_t count = 0;      ///< How many there should be; 0: it is no such name.
};
inline shard_name shard_of(std::string_view name) {
    constexpr std::string_view digits = "0123456789", of = "-of-";
    name = name.substr(0, name.rfind('.'));
    auto const numbers_end = [&] { return name.find_last_not_of(digits) + 1; };
    auto const number = name.substr(numbers_end());
    name = name.substr(0, numbers_end());
    if (number.empty() || number.size() > 9 || !name.ends_with(of)) return {};
    name.remove_suffix(of.size());
    shard_name s{name.substr(0, numbers_end())};
    for (char const c : number) s.count = 10 * s.count + static_cast<std::size_t>(c - '0');
    return s;
}

/// Notes that a file beside an index is none of those that it names.
/// @param name  Empty: there is none.
inline void note_beside_index(unverified& notes, const std::string& name) {
    if (!name.empty())
        notes.note("'" + name +
                   "' is not read, as the index does not name it; other programs may read it "
                   "instead of the files that the index names");
}
/// Notes that a file which was named alone is one of several.
inline void note_other_shards(unverified& notes, const std::string& name) {
    if (auto const n = shard_of(name).count; n > 1)
        notes.note("'" + terminal_text(name) + "' is one of " + std::to_string(n) +
                   " files, by its name: the tensors of the others are not here");
}

}  // namespace cairn::detail

#endif
