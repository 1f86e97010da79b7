// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_REMOVAL_IPP

#include <cairn/object_store/detail/s3/removal.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/s3/retries.hpp>

#include <chrono>

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
    // Each try is preceded by a look: another job may save there between two.
    remove.retry_for = std::chrono::milliseconds(0);
    call look;
    look.method = "HEAD";
    look.key = key;
    look.what = remove.what;
    look.right = "s3:GetObject";
    retries patience(c.options().options.retry_for);
    bool tried = false;
    auto const send = [&](const call& asked) {
        try {
            return c.send(asked);
        } catch (const error& e) {  // without keys
            if (!tried) throw;
            throw in_doubt(e);
        }
    };
    for (;;) {
        auto const a = send(remove);
        if (a.ok() || is_missing(a)) return;
        tried = tried || a.in_doubt;
        auto const failed = [&] {
            auto why = c.failure(remove, a);
            return tried ? in_doubt(why) : why;
        };
        if (!a.in_doubt && !is_transient(a)) throw failed();
        auto const again = patience.next(a.got);
        bool const goes_on =
            again && retries::sleep_until(*again, [] { return heeded_stop::is_requested(); });
        auto const there = send(look);
        if (is_missing(there)) return;
        if (!there.ok()) throw failed();
        if (there.got.header("etag") != version.text) return;  // another's, made since
        if (!goes_on) throw failed();
    }
}

}  // namespace cairn::detail::s3

#endif
