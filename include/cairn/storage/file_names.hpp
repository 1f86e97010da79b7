// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_FILE_NAMES_HPP
#define CAIRN_STORAGE_FILE_NAMES_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/codec.hpp>
#include <cairn/storage/data_names.hpp>

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The file names of a save, as the coordinator sends them to the ranks.
namespace cairn::detail {

/// @throws error errc::invalid_argument if a name is not allowed for a save's files
inline void check_file_names(const std::vector<std::string>& names) {
    std::set<std::string_view> seen;
    for (auto const& n : names) {
        if (!is_data_name(n)) {
            throw error(
                errc::invalid_argument,
                {.file = n, .expected = "a relative file name, no part of which is hidden"});
        }
        if (auto const at = find_not_utf8(n); at != n.npos) {
            throw error(errc::invalid_argument,
                        {.file = printable(n),
                         .expected = "a file name in UTF-8, as PyTorch reads it",
                         .found = "byte " + hex_byte(n[at]) + " at offset " + std::to_string(at)});
        }
        if (!seen.insert(n).second) {
            throw error(errc::invalid_argument,
                        {.file = n,
                         .expected = "a name of its own for every file",
                         .found = "the same name twice",
                         .remedy = "file_name must use both the rank and the number"});
        }
    }
}

/// What one rank is told about files.
struct rank_files {
    std::vector<std::string> names{};  ///< Of the files that it writes.
    /// Its share of the files that the save replaces, and the save that wrote them.
    std::vector<std::string> replaced{};
    std::string replaced_id{};
    friend bool operator==(const rank_files&, const rank_files&) = default;

    /// For a plan's `storage_data`.
    std::string encode() const {
        wire_writer w;
        put(w, names);
        put(w, replaced);
        w.string(replaced_id);
        return {reinterpret_cast<const char*>(w.written().data()), w.size()};
    }
    static rank_files decode(std::string_view storage_data) {
        wire_reader r(std::as_bytes(std::span(storage_data.data(), storage_data.size())));
        rank_files f;
        f.names = get_strings(r);
        f.replaced = get_strings(r);
        f.replaced_id = r.string();
        return f;
    }
};

}  // namespace cairn::detail

#endif
