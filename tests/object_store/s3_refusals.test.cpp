// SPDX-License-Identifier: Apache-2.0
// What is told of a server, a network or settings that refuse a request.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_refusals)

using cairn::errc;
using s3_server::kind;
using s3_tests::bucket_server;
using s3_tests::options_at;
using s3_tests::pattern;
using s3_tests::put;
using support::is;
namespace faults = s3_server::faults;

namespace {

cairn::error thrown_by(const std::function<void()>& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e;
    }
    BOOST_FAIL("nothing was thrown");
    std::abort();
}
bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}

}  // namespace

/// E.g. a header that the bucket does not allow, which the trial sends first.
BOOST_AUTO_TEST_CASE(a_put_that_is_refused_with_and_without_a_condition_is_not_blamed_on_it) {
    for (auto const& [status, code] :
         std::vector<std::pair<int, std::string>>{{400, "AccessControlListNotSupported"},
                                                  {400, "KMS.NotFoundException"},
                                                  {501, "NotImplemented"}}) {
        bucket_server s;
        auto store = s.store();
        s.fail_each(faults::answer(status, code),
                    [](auto const& r) { return r.what() == kind::put_object; });
        auto const e = thrown_by([&] { store.prepare_publish("o"); });
        BOOST_TEST(is(e, errc::io), e.what());
        BOOST_TEST(has(e.context().found, code), e.what());
        BOOST_TEST(!has(e.context().remedy, "unconditional"), e.what());
    }
}

/// An unquoted tag that is none of the object's is taken like the right one.
BOOST_AUTO_TEST_CASE(a_server_that_ignores_unquoted_tags_is_refused) {
    auto o = s3_tests::signed_requests();
    o.put_if_match = s3_server::condition::unquoted_ignored;
    bucket_server s(o);
    auto const e = thrown_by([&] { s.store().prepare_publish("o"); });
    BOOST_TEST(is(e, errc::unsupported), e.what());
    BOOST_TEST(has(e.context().found, "ignores If-Match"), e.what());
}

BOOST_AUTO_TEST_SUITE_END()
