// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_NAMES_IPP
#define CAIRN_OBJECT_STORE_IMPL_NAMES_IPP

#include <cairn/object_store/detail/names.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

namespace cairn::detail {

CAIRN_DECL bool is_object_name(std::string_view name) {
    if (name.empty() || name.find('\0') != name.npos) return false;
    for (std::size_t at = 0; at <= name.size();) {
        auto const part = name.substr(at, name.find('/', at) - at);
        if (part.empty() || part == "." || part == "..") return false;
        at += part.size() + 1;
    }
    return true;
}

CAIRN_DECL error bad_object_name(std::string described) {
    return {errc::invalid_argument,
            {.file = std::move(described),
             .expected = "a relative name without '.', '..' or empty parts"}};
}

CAIRN_DECL std::string as_path(std::string named) {
    constexpr const char* of_schemes =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    if (named.empty()) return ".";
    auto const end = named.find_first_not_of(of_schemes);
    if (end == named.npos || end == 0 || named.compare(end, 3, "://") != 0) return named;
    // What is in front of the host, or a query, may be secret.
    auto url = named.substr(0, named.find('?'));
    auto const host = end + 3;
    if (auto const at = url.substr(0, url.find('/', host)).rfind('@'); at != url.npos)
        url.erase(host, at + 1 - host);
    bool const is_file = named.starts_with("file://");
    throw error(errc::invalid_argument,
                {.expected = "a directory",
                 .found = "the URL '" + url + "'",
                 .remedy = is_file ? "pass the path alone, without file://"
                                   : "pass its store, too: cairn::s3_store or cairn::https_store, "
                                     "or what cairn::open_store returns for the URL"});
}

CAIRN_DECL void keep_one_of_each(std::vector<std::string>& names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
}

CAIRN_DECL std::string plain_place_id(const std::string& id) {
    if (id.find("://") != id.npos) return id;
    auto const plain = std::filesystem::path(id).lexically_normal();
    return (plain.has_filename() ? plain : plain.parent_path()).string();
}

}  // namespace cairn::detail

#endif
