// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_PLACE_HPP
#define CAIRN_TOOLS_PLACE_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#ifdef CAIRN_TOOL_URLS
#include <cairn/object_store/open_store.hpp>
#endif

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tool {

/// Whether an argument is a URL, not a path.
inline bool is_url(const std::string& place) {
    return place.find("://") != place.npos;
}

/// Whether two arguments name one place.
inline bool is_one_place(std::string_view a, std::string_view b) {
    for (auto* const place : {&a, &b})
        while (place->size() > 1 && place->ends_with('/')) place->remove_suffix(1);
    std::error_code ignored;
    return a == b || std::filesystem::equivalent(a, b, ignored);
}

/// Returns the store that an argument is in; the argument is its id there.
inline cairn::any_store store_of(const std::string& place) {
    if (!is_url(place)) return cairn::any_store(cairn::file_store());
#ifdef CAIRN_TOOL_URLS
    auto const host = place.find("://") + 3;
    return cairn::open_store(place.substr(0, place.find('/', host)));
#else
    throw cairn::error(
        cairn::errc::unsupported,
        {.file = place,
         .expected = "a path",
         .found = "a URL",
         .remedy = "build the tool where libcurl 7.88 and OpenSSL 3.0 are found (Debian: "
                   "libcurl4-openssl-dev, libssl-dev)"});
#endif
}

/// Splits the name of a file: the place that it is in, and its name there.
inline std::pair<std::string, std::string> directory_and_name(const std::string& file) {
    if (!is_url(file)) {
        auto const at = std::filesystem::absolute(file);
        return {at.parent_path().string(), at.filename().string()};
    }
    auto const slash = file.rfind('/');
    return {file.substr(0, slash), file.substr(slash + 1)};
}

/// Whether an argument names a file, not a place.
inline bool is_file(const std::string& named) {
    if (!is_url(named)) return std::filesystem::is_regular_file(named);
    auto const [within, name] = directory_and_name(named);
    if (name.empty() || within.ends_with('/')) return false;  // a bucket, or a host
    auto place = store_of(named).at(within);
    return !place.tag(name).text.empty();
}

/// Returns the result of `read()`, which reads metadata. Files that stores do not list are named if
/// there is none: snapshots in Hugging Face's cache are links, which lead nowhere once it was
/// emptied.
/// @throws error errc::missing_file for such a link
template <class F>
auto naming_dead_links(const std::string& checkpoint, F read) {
    namespace fs = std::filesystem;
    try {
        return read();
    } catch (const cairn::error& e) {
        if (e.code() != make_error_code(cairn::errc::not_found) || is_url(checkpoint)) throw;
        std::error_code why;
        for (fs::directory_iterator at(checkpoint, why), end; !why && at != end;
             at.increment(why)) {
            auto const name = at->path().filename().string();
            bool const is_known = name == ".metadata" || name.ends_with(".safetensors") ||
                                  name.ends_with(".bin") || name.ends_with(".index.json");
            std::error_code ignored;
            if (!is_known || !at->is_symlink(ignored) || at->exists(ignored)) continue;
            throw cairn::error(
                cairn::errc::missing_file,
                {.file = at->path().string(),
                 .expected = "the file that this link leads to",
                 .found = "nothing at '" + fs::read_symlink(at->path(), ignored).string() + "'",
                 .remedy = "download it again, or put it back"});
        }
        throw;
    }
}

}  // namespace tool

#endif
