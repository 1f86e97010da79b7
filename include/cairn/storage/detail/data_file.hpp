// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DATA_FILE_HPP
#define CAIRN_STORAGE_DETAIL_DATA_FILE_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/storage/detail/claim.hpp>

#include <cstdint>
#include <string>

namespace cairn::detail {

/// Returns the result of `f()`, which opens or reads a data file that the metadata names.
/// @throws error errc::missing_file if the file does not exist (any more): the checkpoint is
/// incomplete.
template <ObjectStore Store, class F>
auto of_data_file(Store& store, const std::string& name, F&& f) {
    try {
        return f();
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::not_found)) throw;
        throw error(
            errc::missing_file,
            {.file = store.describe(name),
             .expected = "a data file, because '" + store.describe(metadata_name) + "' names it",
             .found = "no such file",
             .remedy = "put the file back, or load another checkpoint"});
    }
}

/// Opens a data file that the metadata names, for reading.
template <ObjectStore Store>
auto open_data_file(Store& store, const std::string& name) {
    if (!is_object_name(name))
        throw error(errc::corrupt, {.file = name,
                                    .expected = "a file name within the checkpoint",
                                    .found = "a path outside of the checkpoint"});
    return of_data_file(store, name, [&] { return store.open(name); });
}

/// @param needed  End of the bytes that will be read.
/// @throws error errc::corrupt for a data file whose size differs from the metadata's, or that ends
/// before `needed`.
template <ObjectStore Store>
void check_size(Store& store, const std::string& name, const metadata& m, std::uint64_t found,
                std::uint64_t needed = 0) {
    auto const it = m.file_sizes.find(name);
    bool const exact = it != m.file_sizes.end() && found != it->second;
    if (!exact && found >= needed) return;
    throw error(
        errc::corrupt,
        {.file = store.describe(name),
         .expected = (exact ? std::to_string(it->second) : "at least " + std::to_string(needed)) +
                     " bytes, as '" + store.describe(metadata_name) + "' says",
         .found = std::to_string(found) + " bytes",
         .remedy = "the file is truncated or is not the one that the metadata names: put "
                   "the right one back, or load another checkpoint"});
}

}  // namespace cairn::detail

#endif
