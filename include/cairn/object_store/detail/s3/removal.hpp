// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_REMOVAL_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_REMOVAL_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/s3/client.hpp>

#include <string>

namespace cairn::detail::s3 {

/// Removes an object under a name that others may use again, of which this version was seen just
/// now. A DELETE is repeated, for whatever reason, only after a look that finds that version:
/// otherwise it would remove what another process has made meanwhile. Not all servers heed
/// `If-Match` of a DELETE.
/// @throws error if it may not be removed; errc::outcome_unknown if it may be removed later
CAIRN_DECL void remove_version(client& c, const std::string& key, const object_tag& version);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/removal.ipp>
#endif

#endif
