// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DATA_FILE_HPP
#define CAIRN_STORAGE_DETAIL_DATA_FILE_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Describes the file that names a checkpoint's data files, for errors.
/// @param index  Its name; empty: not known.
template <ObjectStore Store>
std::string described_index(Store& store, std::string_view index) {
    return index.empty() ? "the metadata" : "'" + store.describe(index) + "'";
}

/// Returns the result of `f()`, which opens or reads a data file that the metadata names.
/// @throws error errc::missing_file if the file does not exist (any more): the checkpoint is
/// incomplete.
template <ObjectStore Store, class F>
auto of_data_file(Store& store, const std::string& name, F&& f,
                  std::string_view index = metadata_name) {
    try {
        return f();
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::not_found)) throw;
        throw error(
            errc::missing_file,
            {.file = store.describe(name),
             .expected = "a data file, because " + described_index(store, index) + " names it",
             .found = "no such file",
             .remedy = "put the file back, or load another checkpoint"});
    }
}

/// Opens a data file that the metadata names, for reading.
template <ObjectStore Store>
auto open_data_file(Store& store, const std::string& name, std::string_view index = metadata_name) {
    if (!is_object_name(name))
        throw error(errc::corrupt, {.file = name,
                                    .expected = "a file name within the checkpoint",
                                    .found = "a path outside of the checkpoint"});
    return of_data_file(
        store, name, [&] { return store.open(name); }, index);
}

/// @param needed  End of the bytes that will be read.
/// @throws error errc::corrupt for a data file whose size differs from the metadata's, or that ends
/// before `needed`.
template <ObjectStore Store>
void check_size(Store& store, const std::string& name, const metadata& m, std::uint64_t found,
                std::uint64_t needed = 0, std::string_view index = metadata_name) {
    auto const it = m.file_sizes.find(name);
    bool const exact = it != m.file_sizes.end() && found != it->second;
    if (!exact && found >= needed) return;
    throw error(
        errc::corrupt,
        {.file = store.describe(name),
         .expected = (exact ? std::to_string(it->second) : "at least " + std::to_string(needed)) +
                     " bytes, as " + described_index(store, index) + " says",
         .found = std::to_string(found) + " bytes",
         .remedy = "the file is truncated or is not the one that the metadata names: put "
                   "the right one back, or load another checkpoint"});
}

/// Returns `file`, which was opened, unless it was replaced since the metadata was read.
/// @param m  May be null: then there is no other version.
/// @throws error errc::concurrent_save
template <ObjectStore Store, class Handle>
Handle of_known_version(Store& store, const std::string& name, const metadata* m, Handle file) {
    if (m == nullptr || m->file_versions.empty()) return file;
    auto const known = m->file_versions.find(name);
    auto const found = version_of(file).text;
    if (known == m->file_versions.end() || found.empty() || found == known->second) return file;
    throw error(errc::concurrent_save,
                {.file = store.describe(name),
                 .expected = "the file that was there when its metadata was read",
                 .found = "another one: it was replaced while it was read",
                 .remedy = "read it again when nothing writes there, or read a copy"});
}

}  // namespace cairn::detail

#endif
