// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DATA_FILE_HPP
#define CAIRN_STORAGE_DETAIL_DATA_FILE_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace cairn::detail {

/// Describes the file that names a checkpoint's data files, for errors.
/// @param index  Its name; empty: not known.
template <ObjectStore Store>
std::string described_index(Store& store, std::string_view index) {
    return index.empty() ? "the metadata" : "'" + store.describe(index) + "'";
}

/// Adds a tensor, which may be none, and a file to the exceptions of `f()`, of any type.
template <ObjectStore Store, class F>
void naming(Store& store, const std::string& fqn, const std::string& file, F&& f) {
    try {
        f();
    } catch (...) {
        auto failure = failure_from(std::current_exception(), -1);
        auto& where = failure.where;
        if (where.fqn.empty()) where.fqn = fqn;
        if (where.file.empty()) where.file = store.describe(file);
        throw error(failure.code, std::move(where));
    }
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

/// Whether a file that is open is the one that was there when the metadata was read.
/// @param file  A handle, or an `open_file`.
/// @param m     May be null: then there is no other version.
template <class File>
bool is_known_version(const std::string& name, const metadata* m, File& file) {
    if (m == nullptr) return true;
    auto const known = m->file_versions.find(name);
    if (known == m->file_versions.end()) return true;
    auto const found = version_of(file).text;
    return found.empty() || found == known->second;
}
/// @throws error errc::concurrent_save unless `is_known_version`
template <ObjectStore Store, class File>
void check_version(Store& store, const std::string& name, const metadata* m, File& file) {
    if (is_known_version(name, m, file)) return;
    throw error(errc::concurrent_save,
                {.file = store.describe(name),
                 .expected = "the file that was there when its metadata was read",
                 .found = "another one, or other times: it was replaced or written meanwhile",
                 .remedy = "read it again when nothing writes there, or read a copy"});
}
/// As `open_data_file`, for the file that was there when the metadata was read. Another one is
/// opened again for a while: replicas of a web server may have other ETags for the same file.
/// @throws error errc::concurrent_save if it is another one after `longest_reopening`, or when it
/// is to stop
template <ObjectStore Store>
auto open_known_version(Store& store, const std::string& name, const metadata* m,
                        std::string_view index, const std::stop_token& stop) {
    auto const until = std::chrono::steady_clock::now() + longest_reopening;
    for (auto pause = std::chrono::milliseconds(1);;
         pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
        auto file = open_data_file(store, name, index);
        if (is_known_version(name, m, file)) return file;
        if (stop.stop_requested() || std::chrono::steady_clock::now() > until)
            check_version(store, name, m, file);
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace cairn::detail

#endif
