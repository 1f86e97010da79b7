// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_DATA_FILES_HPP
#define CAIRN_TEST_SUPPORT_DATA_FILES_HPP

#include <cairn/storage/detail/data_names.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace support {

/// Whether a path is that of the data file with a stem, whatever its save is.
inline bool is_data_file(std::string_view path, std::string_view stem) {
    auto const id = cairn::detail::id_in(path);
    return !id.empty() && path.ends_with(cairn::detail::data_name(stem, id));
}
/// The name of the only data file with a stem in a store, e.g. of `c/__0_0`, in the place `c`.
template <class Store>
std::string data_file(Store store, std::string_view stem) {
    if (auto const slash = stem.rfind('/'); slash != stem.npos) {
        std::string const place(stem.substr(0, slash));
        return place + "/" + data_file(store.at(place), stem.substr(slash + 1));
    }
    std::string found;
    for (auto const& info : store.list())
        if (is_data_file(info.name, stem)) {
            if (!found.empty()) throw std::runtime_error("two files " + std::string(stem));
            found = info.name;
        }
    if (found.empty()) throw std::runtime_error("no file " + std::string(stem));
    return found;
}
/// The same in a directory.
inline std::filesystem::path data_file_in(const std::filesystem::path& dir, std::string_view stem) {
    for (auto const& e : std::filesystem::directory_iterator(dir))
        if (is_data_file(e.path().filename().string(), stem)) return e.path();
    throw std::runtime_error("no file " + std::string(stem) + " in " + dir.string());
}

}  // namespace support

#endif
