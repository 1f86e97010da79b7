// SPDX-License-Identifier: Apache-2.0
#include "checkpoints.hpp"

#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/metadata/detail/locations.hpp>

#include <span>

namespace crash {

namespace {

std::span<const std::byte> bytes_of(const std::string& s) {
    return std::as_bytes(std::span(s.data(), s.size()));
}
const std::string& file_in(const image& all, const std::string& name) {
    auto const it = all.files.find(place + name);
    if (it == all.files.end()) throw wrong("'" + name + "', which .metadata names, is not there");
    return it->second;
}

}  // namespace

checkpoint::checkpoint(const image& all) : metadata(file_in(all, ".metadata")) {
    auto const read = cairn::format::native::parse_metadata_file(bytes_of(metadata));
    has_index = read.has_index;
    auto const take = [&](const std::string& name) { files.try_emplace(name, file_in(all, name)); };
    for (auto const& name : cairn::detail::files_of(read.meta)) take(name);
    cairn::format::native::check_pickle_agrees(bytes_of(metadata));
    cairn::detail::for_each_stored(
        cairn::format::torch::parse_metadata_pickle(bytes_of(metadata)),
        [&](const std::string& file, std::uint64_t offset, std::uint64_t length) {
            take(file);
            by_pickle.push_back({file, offset, length});
        });
}

int history::standing(const image& left, int promised) const {
    auto const it = left.files.find(place + ".metadata");
    if (it == left.files.end()) {
        if (begins_empty && promised < 0) return -1;
        throw wrong("no checkpoint stands, although one did");
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].metadata != it->second) continue;
        auto const number = static_cast<int>(i);
        require_all_bytes(all[i], left);
        if (number < promised) throw wrong("an older checkpoint stands than was promised");
        return number;
    }
    throw wrong("a .metadata of no checkpoint");
}

void history::require_all_bytes(const checkpoint& c, const image& left) {
    for (auto const& r : c.by_pickle) {
        auto const& there = file_in(left, r.file);
        auto const& wanted = c.files.at(r.file);
        if (there.size() < r.offset + r.length ||
            there.compare(r.offset, r.length, wanted, r.offset, r.length) != 0)
            throw wrong("other bytes in '" + r.file + "', which the pickle names");
    }
    // The index names whole files, by their sizes, and cairn reads their footers.
    if (!c.has_index) return;
    for (auto const& [name, bytes] : c.files)
        if (file_in(left, name) != bytes)
            throw wrong("other bytes in '" + name + "', which the index names");
}

}  // namespace crash
