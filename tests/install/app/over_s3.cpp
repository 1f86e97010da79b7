// SPDX-License-Identifier: Apache-2.0
#include <cairn/object_store/s3.hpp>

/// Nobody listens there.
int main() {
    cairn::s3_options o;
    o.endpoint = "http://127.0.0.1:1";
    o.credentials = cairn::s3_credentials::anonymous();
    o.retry_for = {};
    cairn::s3_store store("s3://bucket/run", o);
    try {
        (void)store.list();
    } catch (const cairn::error& e) {
        return e.code() == cairn::errc::io ? 0 : 1;
    }
    return 1;
}
