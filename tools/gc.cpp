// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "copies.hpp"

#include <cairn/catalog/garbage.hpp>

#include <filesystem>
#include <iostream>
#include <string>

namespace tool {

int gc(const std::string& place, bool dry_run) {
    if (!is_url(place) && !std::filesystem::is_directory(place))
        throw cairn::error(cairn::errc::not_found,
                           {.file = place, .expected = "a directory of checkpoints"});
    cairn::garbage_report r;
    if (!is_url(place)) {
        collect_copies(place, dry_run, r);
        for (auto const& entry : std::filesystem::directory_iterator(place))
            if (is_directory(entry.symlink_status())) collect_copies(entry.path(), dry_run, r);
    }
    auto const rest = [&] {
        if (!is_url(place)) return cairn::collect_garbage(place, dry_run);
        auto store = store_of(place).at(place);
        return cairn::collect_garbage(store, dry_run);
    }();
    r.lines.insert(r.lines.end(), rest.lines.begin(), rest.lines.end());
    r.files += rest.files;
    r.bytes += rest.bytes;
    r.directories += rest.directories;
    r.problems += rest.problems;
    for (auto const& line : r.lines) std::cout << line << '\n';
    std::cout << r.files << (r.files == 1 ? " file, " : " files, ") << r.bytes << " bytes";
    if (r.directories != 0)
        std::cout << (r.directories == 1
                          ? " and 1 empty directory"
                          : " and " + std::to_string(r.directories) + " empty directories");
    std::cout << (dry_run ? " would be removed\n" : " removed\n");
    return r.problems == 0 ? fine : finding;
}

}  // namespace tool
