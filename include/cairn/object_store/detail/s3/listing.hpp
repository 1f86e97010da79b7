// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_LISTING_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_LISTING_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/client.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail::s3 {

struct listed_object {
    std::string key{};
    std::uint64_t size = 0;
    std::string tag{};  ///< With its quotes.
    std::chrono::system_clock::time_point modified{};
};

/// An upload that has not been finished.
struct listed_upload {
    std::string key{}, id{};
    std::chrono::system_clock::time_point begun{};
};

/// What is directly within a place.
struct listed_place {
    std::vector<listed_object> objects{};
    /// The prefixes of what is deeper, each with the `/` at its end.
    std::vector<std::string> places{};
};

/// @param prefix  Empty, or with a `/` at its end.
/// @throws error errc::io for an answer that is no listing
CAIRN_DECL listed_place list_objects(client& c, const std::string& prefix);

/// Called with each page of a listing: there may be too many objects for memory.
using listed_page = std::function<void(listed_place page)>;

/// All that is below a place, however deep. Keys that contain `delimiter` there are listed as the
/// first part, which ends with it, in `places`; unless the server knows no such delimiter. Then
/// some keys may be listed twice, or as a shorter part.
/// @param delimiter  Empty: none.
CAIRN_DECL void list_below(client& c, const std::string& prefix, const std::string& delimiter,
                           const listed_page& found);

/// All uploads of keys that begin with a prefix, however deep: servers differ in what they answer
/// if asked for less.
CAIRN_DECL std::vector<listed_upload> list_uploads(client& c, const std::string& prefix);

/// Whether an upload is there, although an answer says that it is not. One that may not be listed
/// is not.
CAIRN_DECL bool is_listed(client& c, const std::string& key, const std::string& upload);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/listing.ipp>
#endif

#endif
