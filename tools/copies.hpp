// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_COPIES_HPP
#define CAIRN_TOOLS_COPIES_HPP

#include "beside.hpp"
#include "own_directory.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/printable.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace tool {

/// Returns how many files a directory has, and of how many bytes together; without those in
/// directories that cannot be read.
inline std::pair<std::size_t, std::uint64_t> files_in(const std::filesystem::path& directory) {
    std::pair<std::size_t, std::uint64_t> found{};
    std::error_code why;
    std::filesystem::recursive_directory_iterator at(
        directory, std::filesystem::directory_options::skip_permission_denied, why);
    for (std::filesystem::recursive_directory_iterator const end; !why && at != end;
         at.increment(why)) {
        std::error_code gone;
        if (!is_regular_file(at->symlink_status(gone))) continue;
        auto const size = at->file_size(gone);
        if (gone) continue;
        ++found.first;
        found.second += size;
    }
    return found;
}

/// Removes copies of files beside a checkpoint, of conversions that have ended before it was there.
inline void collect_copies(const std::filesystem::path& place, bool dry_run,
                           cairn::garbage_report& r) {
    auto const problem = [&](const std::string& text) {
        r.lines.push_back(cairn::terminal_text(text));
        ++r.problems;
    };
    try {
        own_directory::remove_ended(
            place, beside::staged_name,
            [&](const auto& copies) {
                auto const [files, bytes] = files_in(copies);
                r.files += files;
                r.bytes += bytes;
                r.lines.push_back("'" + cairn::terminal_text(copies.string()) +
                                  "': copies of an interrupted conversion");
                return !dry_run;
            },
            [&](const auto& copies, const std::error_code& why) {
                problem("'" + copies.string() + "': cannot be removed: " + why.message());
                auto const [files, bytes] = files_in(copies);  // that are left
                r.files -= files;
                r.bytes -= bytes;
            },
            [&](const auto& copies, const std::error_code& why) {
                r.lines.push_back("'" + cairn::terminal_text(copies.string()) +
                                  "' stays: copies of a conversion that may be running: it cannot "
                                  "be locked (" +
                                  why.message() + ")");
            });
    } catch (const std::filesystem::filesystem_error& e) {
        // It was removed meanwhile, or cairn::collect_garbage says that nobody may list it.
        if (e.code() != std::errc::no_such_file_or_directory &&
            e.code() != std::errc::permission_denied)
            problem(e.what());
    }
}

}  // namespace tool

#endif
