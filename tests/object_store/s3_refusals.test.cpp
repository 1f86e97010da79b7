// SPDX-License-Identifier: Apache-2.0
// What is told of a server, a network or settings that refuse a request.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/s3/server.hpp"

#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/detail/s3/settings.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
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

BOOST_AUTO_TEST_CASE(a_server_that_knows_no_checksums_is_told_as_that) {
    bucket_server s;
    auto f = faults::answer(400, "InvalidArgument");
    f.message = "Unsupported header 'x-amz-checksum-crc32' received";
    s.fail_each(f, [](auto const& r) { return r.what() == kind::put_object; });
    auto const e = thrown_by([&] { s.store().prepare_publish("o"); });
    BOOST_TEST(has(e.context().remedy, "accepts the header x-amz-checksum-crc32"), e.what());
}

/// E.g. one of KMS, which is not that of the request.
BOOST_AUTO_TEST_CASE(the_right_that_the_server_names_is_told) {
    bucket_server s;
    auto store = s.store();
    auto f = faults::answer(403, "AccessDenied");
    f.message =
        "User: arn:aws:iam::1:user/a is not authorized to perform: kms:Decrypt on "
        "resource: arn:aws:kms:eu-west-1:1:key/k";
    s.fail_each(f);
    for (auto const& verb : std::vector<std::function<void()>>{
             [&] { store.publish("o", {}, std::nullopt); }, [&] { (void)store.open("o"); }}) {
        auto const e = thrown_by(verb);
        BOOST_TEST(is(e, errc::permission_denied));
        BOOST_TEST(e.context().remedy == "give the key the right kms:Decrypt");
    }
    f.message = "User: arn:aws:iam::1:user/a is not authorized to perform: s3:ListBucket on a";
    bucket_server other;
    other.fail_each(f);
    auto const e = thrown_by([&] { (void)other.store().list(); });
    BOOST_TEST(has(e.context().remedy, "s3:ListBucket on 's3://" + s3_tests::bucket + "'"));
}

/// The answer to a completion is lost, and the object may not be looked at.
BOOST_AUTO_TEST_CASE(the_right_to_look_at_an_object_in_doubt_is_named) {
    bucket_server s;
    auto store = s.store();
    auto lost = faults::reset(s3_server::effect::done);
    lost.then = [](auto& w) { w.how.denied.insert(s3_server::right::get); };
    s.fail(lost, kind::complete_upload, 0);
    auto const e = thrown_by([&] { put(store, "o", pattern((std::size_t{8} << 20) + 1)); });
    BOOST_TEST(has(e.what(), "s3:GetObject"), e.what());
}

BOOST_AUTO_TEST_CASE(a_token_that_has_expired_and_is_not_renewed_has_its_remedy) {
    bucket_server s;
    s.fail_each(faults::answer(400, "ExpiredToken"));
    auto const e = thrown_by([&] { (void)s.store().list(); });
    BOOST_TEST(has(e.context().remedy, "start the program again"), e.what());
}

BOOST_AUTO_TEST_CASE(an_error_without_an_answer_names_the_host) {
    std::optional<bucket_server> s(std::in_place);
    auto o = options_at(*s);
    o.retry_for = std::chrono::milliseconds(0);
    auto store = s->store(o);
    s.reset();
    auto const e = thrown_by([&] { (void)store.list(); });
    BOOST_TEST(e.context().found.starts_with("no answer of " + o.endpoint + ": "), e.what());
    BOOST_TEST(!has(e.context().remedy, "AWS_REGION"), e.what());

    cairn::detail::s3::store_settings at_aws;
    at_aws.options.bucket = s3_tests::bucket;
    cairn::detail::s3::client const requests(at_aws);
    cairn::detail::s3::answer none;
    none.asked = "https://cairn-tests.s3.eu-centrall-1.amazonaws.com";
    none.failure = "Couldn't resolve host name";
    for (bool const hopeless : {false, true}) {
        none.hopeless = hopeless;
        auto const why = requests.failure({}, none);
        BOOST_TEST(has(why.context().found, none.asked));
        BOOST_TEST(has(why.context().remedy, "AWS_REGION"));
        BOOST_TEST(has(why.context().remedy, "AWS_CA_BUNDLE") == hopeless);
    }
}

BOOST_AUTO_TEST_CASE(settings_that_cannot_be_are_told_with_where_they_are_from) {
    cairn::s3_options o;
    o.bucket = s3_tests::bucket;
    ::setenv("AWS_ENDPOINT_URL", "localhost:9000", 1);
    auto e = thrown_by([&] { (void)cairn::s3_store(o); });
    ::unsetenv("AWS_ENDPOINT_URL");
    BOOST_TEST(is(e, errc::invalid_argument));
    BOOST_TEST(has(e.context().expected, "AWS_ENDPOINT_URL"), e.what());
    o.endpoint = "localhost:9000";
    e = thrown_by([&] { (void)cairn::s3_store(o); });
    BOOST_TEST(has(e.context().expected, "s3_options::endpoint"), e.what());
    o.endpoint = "http://localhost:9000";
    for (auto const* const region : {"eu-central-1 ", "eu/central", "a.b"}) {
        o.region = region;
        e = thrown_by([&] { (void)cairn::s3_store(o); });
        BOOST_TEST(is(e, errc::invalid_argument));
        BOOST_TEST(has(e.context().expected, "AWS_REGION"), e.what());
    }
}

/// It would become a part of the host that signed requests go to.
BOOST_AUTO_TEST_CASE(a_region_that_a_server_names_is_one) {
    bucket_server s;
    auto store = s.store();
    s.fail(faults::redirect(301, "us-east-1.example.com/"), 0);
    auto const e = thrown_by([&] { (void)store.list(); });
    BOOST_TEST(is(e, errc::io), e.what());
    BOOST_TEST(s.count() == 1u);
}

BOOST_AUTO_TEST_CASE(a_relative_file_of_certificates_is_that_of_the_directory_then) {
    auto o = options_at(bucket_server());
    o.ca_file = "certificates/ca.pem";
    auto const s = cairn::detail::s3::store_settings::of(o);
    BOOST_TEST(s.options.ca_file ==
               (std::filesystem::current_path() / "certificates/ca.pem").string());
}

/// E.g. because of a byte that changed on the way. The server has stored nothing.
BOOST_AUTO_TEST_CASE(what_arrived_changed_is_sent_once_more) {
    for (std::string const code : {"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch",
                                   "XAmzContentChecksumMismatch"}) {
        bucket_server s;
        auto store = s.store();
        s.fail(faults::answer(400, code), kind::put_object, 0);
        put(store, "o", pattern(100));
        BOOST_TEST(store.statistics().retries == 1u);
        s.fail_each(faults::answer(400, code));
        auto const e = thrown_by([&] { put(store, "other", pattern(100)); });
        BOOST_TEST(has(e.context().found, code), e.what());
        BOOST_TEST(has(e.context().remedy, "proxies"), e.what());
        BOOST_TEST(store.statistics().retries <= 3u);
    }
}

BOOST_AUTO_TEST_CASE(a_listing_that_is_none_is_told_with_its_place) {
    std::string const begin = "<ListBucketResult><Contents><Key>p/a</Key><Size>1</Size>",
                      end = "</Contents></ListBucketResult>",
                      time = "<LastModified>2026-11-28T12:00:00Z</LastModified>";
    for (auto const& body : {begin, begin + "<ETag>\"1\"</ETag>" + end}) {
        bucket_server s;
        auto o = options_at(s);
        o.retry_for = std::chrono::seconds(0);
        auto f = faults::answer(200, "OK");
        f.body = body;
        s.fail_each(f);
        auto const e = thrown_by([&] { (void)s.store(o).at("p").list_finished(); });
        BOOST_TEST(is(e, errc::io), e.what());
        BOOST_TEST(e.context().file == "s3://" + s3_tests::bucket + "/p/", e.what());
    }
}

/// As that of a server whose other interface has written it.
BOOST_AUTO_TEST_CASE(an_object_without_a_tag_counts_where_no_tag_is_needed) {
    auto const listing_of = [](const std::string& key) {
        auto f = faults::answer(200, "OK");
        f.body = "<ListBucketResult><Contents><Key>" + key +
                 "</Key><Size>1</Size><LastModified>2026-11-28T12:00:00Z</LastModified>"
                 "</Contents></ListBucketResult>";
        return f;
    };
    bucket_server s;
    auto store = s.store();
    s.fail(listing_of("a"), kind::list_objects, 0);
    BOOST_TEST(store.list_finished().size() == 1u);
    s.fail(listing_of("step_1/a"), kind::list_objects, 0);
    BOOST_TEST(store.places_with(".metadata").size() == 1u);
    s.fail(listing_of("step_1/.metadata"), kind::list_objects, 0);
    auto const e = thrown_by([&] { (void)store.places_with(".metadata"); });
    BOOST_TEST(has(e.context().file, "step_1/.metadata"), e.what());
    BOOST_TEST(has(e.context().expected, "an ETag"), e.what());
}

BOOST_AUTO_TEST_CASE(who_may_not_begin_an_upload_does_not_end_that_of_another_job) {
    bucket_server s;
    auto mine = s.store(), others = s.store();
    constexpr std::size_t size = (std::size_t{8} << 20) + 1;
    auto h = others.create("model.safetensors", size);
    s.fail(faults::answer(403, "AccessDenied"), kind::create_upload, 0);
    BOOST_CHECK_EXCEPTION((void)mine.create("model.safetensors", size), cairn::error,
                          is(errc::permission_denied));
    // In doubt, but what others begin under this name looks the same.
    s.fail_each(faults::answer(507, ""),
                [](auto const& r) { return r.what() == kind::create_upload; });
    BOOST_CHECK_THROW((void)mine.create("model.safetensors", size), cairn::error);
    mine.remove("model.safetensors");
    BOOST_TEST(s.uploads(s3_tests::bucket).size() == 1u);
    h.write(0, pattern(size));
    h.finish(true);
}

BOOST_AUTO_TEST_CASE(a_server_that_lists_no_uploads_is_used_with_a_warning) {
    bucket_server s;
    auto store = s.store();
    s.fail_each(faults::answer(501, "NotImplemented"),
                [](auto const& r) { return r.what() == kind::list_uploads; });
    put(store, "o", pattern(100));
    BOOST_TEST(store.list().size() == 1u);
    auto const warnings = store.take_warnings();
    BOOST_REQUIRE(warnings.size() == 1u);
    BOOST_TEST(has(warnings[0], "unfinished uploads are not seen"), warnings[0]);
    BOOST_TEST(store.list().size() == 1u);
    BOOST_TEST(store.take_warnings().empty());  // though each answer has a number of its own
}

BOOST_AUTO_TEST_CASE(what_a_later_step_of_the_trial_fails_with_is_told) {
    for (std::size_t const step : {1u, 2u, 3u}) {
        bucket_server s;
        std::size_t puts = 0;
        s.fail_each(faults::answer(400, "ExpiredToken"), [&puts, step](auto const& r) {
            return r.what() == kind::put_object && puts++ >= step;
        });
        auto const e = thrown_by([&] { s.store().prepare_publish("o"); });
        BOOST_TEST(!is(e, errc::unsupported), e.what());
        BOOST_TEST(has(e.context().found, "ExpiredToken"), e.what());
    }
}

BOOST_AUTO_TEST_SUITE_END()
