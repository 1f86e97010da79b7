// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_OPEN_STORE_HPP
#define CAIRN_OBJECT_STORE_OPEN_STORE_HPP

#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/https.hpp>
#include <cairn/object_store/s3.hpp>

#include <string>
#include <string_view>

namespace cairn {

/// Opens the store of a place that a user names:
///
/// | `place`             | Store                                                             |
/// |---------------------|-------------------------------------------------------------------|
/// | `s3://BUCKET/PREFIX`| an @ref s3_store, with what else it needs from the environment    |
/// | `https://HOST/PATH` | an @ref https_store, which is read only                           |
/// | any other           | a @ref file_store of that directory                               |
///
/// @throws error errc::invalid_argument if it is a URL of another kind, or one that cannot be
inline any_store open_store(const std::string& place) {
    auto const colon = place.find("://");
    auto const scheme =
        colon == place.npos ? std::string_view() : std::string_view(place).substr(0, colon);
    if (scheme.empty()) return any_store(file_store(place));
    if (scheme == "s3") return any_store(s3_store(place));
    if (scheme == "https" || scheme == "http") return any_store(https_store(place));
    throw error(errc::invalid_argument,
                {.expected = "a directory, s3://… or https://…", .found = "'" + place + "'"});
}

}  // namespace cairn

#endif
