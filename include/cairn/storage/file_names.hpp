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
                        {.file = terminal_text(n),
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

/// What one rank is told, in its plan's `storage_data`: the names of the files that it writes.
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
