// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_NAMES_HPP
#define CAIRN_STORAGE_DETAIL_FILE_NAMES_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The file names of a save, as the coordinator sends them to the ranks.
namespace cairn::detail {

/// Returns the length in bytes of the longest part of a name, between slashes.
inline std::size_t longest_part(std::string_view name) {
    std::size_t longest = 0;
    for (std::size_t begin = 0; begin <= name.size();) {
        auto const end = std::min(name.find('/', begin), name.size());
        longest = std::max(longest, end - begin);
        begin = end + 1;
    }
    return longest;
}

/// Returns the names of a save's data files.
/// @param names  As `file_name` gave them.
/// @throws error errc::invalid_argument for one that is not allowed
inline std::vector<std::string> data_names(const std::vector<std::string>& names,
                                           const std::string& save_id) {
    constexpr std::size_t longest = 255;  // of one part, in the file systems of Linux
    std::set<std::string> seen;
    std::vector<std::string> full;
    for (auto const& n : names) {
        if (!is_data_name(n) || !is_data_name(stem_of(n))) {
            throw error(
                errc::invalid_argument,
                {.file = n, .expected = "a relative file name, no part of which is hidden"});
        }
        if (auto const at = find_not_utf8(n); at != n.npos) {
            throw error(errc::invalid_argument,
                        {.file = terminal_text(n),
                         .expected = "a file name in UTF-8, as PyTorch reads it",
                         .found = "byte " + hex_byte(n[at]) + " at offset " + std::to_string(at)});
        }
        full.push_back(data_name(n, save_id));
        if (auto const size = longest_part(full.back()); size > longest) {
            throw error(errc::invalid_argument,
                        {.file = n,
                         .expected = "parts of at most " + std::to_string(longest) +
                                     " bytes, with the 40 that cairn adds to the last",
                         .found = std::to_string(size) + " bytes",
                         .remedy = "let file_name give a shorter name"});
        }
        if (!seen.insert(full.back()).second) {
            throw error(errc::invalid_argument,
                        {.file = n,
                         .expected = "a name of its own for every file",
                         .found = "the same name twice",
                         .remedy = "file_name must use both the rank and the number"});
        }
    }
    return full;
}

/// Encodes the names of the files that one rank writes, for its plan's `storage_data`.
inline std::string encode_file_names(const std::vector<std::string>& names) {
    wire_writer w;
    put(w, names);
    return {reinterpret_cast<const char*>(w.written().data()), w.size()};
}
inline std::vector<std::string> decode_file_names(std::string_view storage_data) {
    wire_reader r(std::as_bytes(std::span(storage_data.data(), storage_data.size())));
    return get_strings(r);
}

}  // namespace cairn::detail

#endif
