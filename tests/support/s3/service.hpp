// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_SERVICE_HPP
#define CAIRN_TEST_SUPPORT_S3_SERVICE_HPP

#include "support/s3/listings.hpp"
#include "support/s3/multipart.hpp"
#include "support/s3/objects.hpp"
#include "support/s3/world.hpp"

#include <optional>
#include <string>
#include <utility>

namespace s3_server {

/// What is wrong with a request itself, whatever is stored.
inline std::optional<answer> refused_request(const request& r) {
    if (!r.decodes) return error_answer(400, "InvalidURI", "Couldn't parse the specified URI.");
    if (r.key.size() > 1024) return error_answer(400, "KeyTooLongError", "Your key is too long");
    if (!r.bucket.empty() && (r.bucket.size() < 3 || r.bucket.size() > 63))
        return error_answer(400, "InvalidBucketName", "The specified bucket is not valid.");
    return {};
}

inline answer create_bucket(world& w, const request& r) {
    if (!w.buckets.try_emplace(r.bucket).second)
        return error_answer(409, "BucketAlreadyOwnedByYou");
    return empty_answer(200);
}

/// Carries a request out.
/// @param o  `object_of` it, if it has a body that is kept.
/// @param listing_age  A listing is as it was so many requests ago.
inline answer carry_out(world& w, const request& r, object o, std::size_t listing_age) {
    auto const what = r.what();
    if (what == kind::unknown || what == kind::list_parts)
        return error_answer(501, "NotImplemented", "This server does not know such a request");
    if (what == kind::create_bucket) return create_bucket(w, r);
    auto const it = w.buckets.find(r.bucket);
    if (it == w.buckets.end())
        return error_answer(404, "NoSuchBucket", "The specified bucket does not exist",
                            xml_element("BucketName", r.bucket));
    auto& b = it->second;
    auto const seen = [&] { return w.as_of(r.bucket, listing_age); };
    switch (what) {
        case kind::put_object: return put_object(w, b, r, std::move(o));
        case kind::get_object:
        case kind::head_object: return get_object(w, b, r);
        case kind::delete_object: return delete_object(w, b, r);
        case kind::delete_objects: return delete_objects(w, b, r);
        case kind::list_objects: return list_objects(w, listing_age == 0 ? b : seen(), r);
        case kind::list_uploads: return list_uploads(w, listing_age == 0 ? b : seen(), r);
        case kind::create_upload: return create_upload(w, b, r);
        case kind::upload_part: return upload_part(w, b, r, std::move(o));
        case kind::complete_upload: return complete_upload(w, b, r);
        case kind::abort_upload: return abort_upload(w, b, r);
        default: break;
    }
    auto a = empty_answer(w.may(right::list) ? 200 : 403);
    a.headers.emplace_back("x-amz-bucket-region", w.how.region);
    return a;
}

}  // namespace s3_server

#endif
