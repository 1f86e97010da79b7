// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP

#include <cairn/object_store/detail/s3/removal.hpp>

#include <cairn/error.hpp>

namespace cairn::detail::s3 {

CAIRN_DECL void remove_version(client& c, const std::string& key, const object_tag& version) {
    auto const look = c.about("HEAD", key, "s3:GetObject");
    bool gone = false, seen = true;
    auto const is_there = [&] {
        auto const there = c.send(look);
        gone = there.is_missing() || (there.ok() && there.got.header("etag") != version.text);
        seen = gone || there.ok();
        return there.ok() && !gone;
    };
    auto remove = c.about("DELETE", key, "s3:DeleteObject");
    remove.may_repeat = is_there;
    auto const a = c.send(remove);
    if (a.ok() || a.is_missing() || gone) return;
    auto const why = c.failure(remove, a);
    try {
        if (seen && (a.in_doubt || is_transient(a))) (void)is_there();
    } catch (const error&) {  // why it was not removed is told
    }
    if (gone) return;
    // What a server has received may still take effect.
    throw a.in_doubt ? error(errc::outcome_unknown, why.context()) : why;
}

}  // namespace cairn::detail::s3

#endif
