// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_NAMES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_NAMES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// Whether a name stays within its store: relative, without '.', '..', empty segments or zero
/// bytes.
CAIRN_DECL bool is_object_name(std::string_view name);
/// @param described  The name as its store displays it.
CAIRN_DECL error bad_object_name(std::string described);
/// Returns the path of a directory that a user names; `.` for an empty text.
/// @throws error errc::invalid_argument for a URL, which would be a relative path
CAIRN_DECL std::string as_path(std::string named);
/// Sorts names, and removes those that are there already.
CAIRN_DECL void keep_one_of_each(std::vector<std::string>& names);
/// The id of a place without what does not change it: `a` for `./b/../a/`.
CAIRN_DECL std::string plain_place_id(const std::string& id);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/names.ipp>
#endif

#endif
