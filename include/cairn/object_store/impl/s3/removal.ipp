// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP

#include <cairn/object_store/detail/s3/removal.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/retries.hpp>

#include <thread>

namespace cairn::detail::s3 {

/// What a server has received may still take effect after this has given up.
inline error in_doubt(const error& why) {
    return error(errc::outcome_unknown, why.context());
}

CAIRN_DECL void remove_version(client& c, const std::string& key, const object_tag& version) {
    call remove;
    remove.method = "DELETE";
    remove.key = key;
    remove.what = c.options().describe(key);
    remove.right = "s3:DeleteObject";
    remove.once_in_doubt = true;
    call look;
    look.method = "HEAD";
    look.key = key;
    look.what = remove.what;
    look.right = "s3:GetObject";
    retries patience(c.options().options.retry_for);
    for (;;) {
        auto const a = c.send(remove);
        if (a.ok() || is_missing(a)) return;
        if (!a.in_doubt) throw c.failure(remove, a);
        auto const there = c.send(look);
        if (is_missing(there)) return;
        if (!there.ok()) throw in_doubt(c.failure(remove, a));
        if (there.got.header("etag") != version.text) return;  // another's, made since
        auto const again = patience.next();
        if (!again) throw in_doubt(c.failure(remove, a));
        std::this_thread::sleep_until(*again);
    }
}

}  // namespace cairn::detail::s3

#endif
