// SPDX-License-Identifier: Apache-2.0
// Credentials are found where AWS's SDKs find them, renewed in time, and never shown.
#include "support/error_codes.hpp"
#include "support/error_text.hpp"
#include "support/scratch.hpp"

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/aws_environment.hpp>
#include <cairn/object_store/detail/s3/credentials.hpp>
#include <cairn/object_store/detail/s3/profile.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_credentials)

namespace {

using namespace cairn::detail::s3;
using namespace std::chrono_literals;
using cairn::errc;
using support::is;

const auto start = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28) + 12h;

/// Answers by method and URL, in the order in which they were added; the last one again and again.
/// Whatever has none: nobody is there.
struct fake_services {
    std::map<std::string, std::vector<response>> answers{};
    std::vector<std::string> asked{};
    std::vector<request> requests{};
    std::string body{};  ///< Of the last request.

    void add(const std::string& what, int status, std::string text) {
        response r;
        r.status = status;
        r.body = std::move(text);
        answers[what].push_back(std::move(r));
    }
    response operator()(const request& r) {
        auto const query = encoded_query(r);
        asked.push_back(r.method + ' ' + r.to.scheme + "://" + host_of(r.to) + encoded_path(r) +
                        (query.empty() ? "" : '?' + query));
        requests.push_back(r);
        body.clear();
        for (auto const b : r.body) body += static_cast<char>(b);
        auto const at = answers.find(asked.back());
        if (at == answers.end()) throw cairn::error(errc::timed_out, {.file = asked.back()});
        auto const first = at->second.front();
        if (at->second.size() > 1) at->second.erase(at->second.begin());
        return first;
    }
    sender send() {
        return [this](const request& r, std::chrono::milliseconds) { return (*this)(r); };
    }
};

struct world {
    support::scratch s{};
    fake_services services{};
    std::map<std::string, std::string> variables{{"HOME", s.dir.string()}};

    world() { std::filesystem::create_directory(s.dir / ".aws"); }

    std::string file(const std::string& name, const std::string& text) const {
        auto const path = s.dir / name;
        std::ofstream(path) << text;
        return path.string();
    }
    aws_environment environment() const {
        return read_aws_environment([&](const char* name) {
            auto const at = variables.find(name);
            return at == variables.end() ? std::nullopt : std::optional(at->second);
        });
    }
    cairn::s3_credentials find() { return find_credentials(environment(), services.send(), start); }
    std::string error() {
        return support::error_of([&] { (void)find(); });
    }
};

std::string json(const std::string& key, const std::string& until) {
    return R"({"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": ")" + key +
           R"(", "SecretAccessKey": "SECRET/+=", "Token": "TOKEN", "Expiration": ")" + until +
           "\"}";
}
std::string sts_answer(const std::string& key) {
    return "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
           "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>" +
           key +
           "</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey><SessionToken>TOKEN"
           "</SessionToken><Expiration>2026-11-28T13:00:00Z</Expiration></Credentials>"
           "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
}

const std::string token_url = "PUT http://169.254.169.254/latest/api/token";
const std::string roles_url =
    "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/";

/// A virtual machine whose role is `trainer`.
void add_role(fake_services& s) {
    s.add(token_url, 200, "SESSION");
    s.add(roles_url, 200, "trainer\n");
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_environment_is_asked_first) {
    world w;
    w.variables["AWS_ACCESS_KEY_ID"] = "AKID";
    w.variables["AWS_SECRET_ACCESS_KEY"] = "SECRET";
    w.variables["AWS_PROFILE"] = "missing";
    BOOST_CHECK((w.find() == cairn::s3_credentials{"AKID", "SECRET", "", {}}));
    w.variables["AWS_SESSION_TOKEN"] = "TOKEN";
    BOOST_TEST(w.find().session_token == "TOKEN");
    BOOST_TEST(w.services.asked.empty());
    w.variables.erase("AWS_ACCESS_KEY_ID");
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
    BOOST_CHECK(support::contains(w.error(), {"AWS_ACCESS_KEY_ID", "the environment"}));
}

BOOST_AUTO_TEST_CASE(the_environment_is_read_once) {
    world w;
    w.variables["AWS_DEFAULT_REGION"] = "eu-west-1";
    w.variables["AWS_ENDPOINT_URL"] = "http://all";
    w.variables["AWS_ENDPOINT_URL_S3"] = "http://s3";
    w.variables["AWS_CONFIG_FILE"] = "~/other";
    auto e = w.environment();
    BOOST_TEST(e.region == "eu-west-1");
    BOOST_TEST(e.s3_endpoint_url == "http://s3");
    BOOST_TEST(e.sts_endpoint_url == "http://all");
    BOOST_TEST(e.config_file == (w.s.dir / "other").string());
    BOOST_TEST(e.credentials_file == (w.s.dir / ".aws/credentials").string());
    w.variables["AWS_REGION"] = "eu-west-2";
    w.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "TRUE";
    w.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "IPv6";
    w.variables["AWS_CONFIG_FILE"] = "here";
    e = w.environment();
    BOOST_TEST(e.region == "eu-west-2");
    BOOST_TEST(e.s3_endpoint_url == "");
    BOOST_TEST(e.instance_metadata_endpoint == "http://[fd00:ec2::254]");
    BOOST_TEST(e.config_file == (std::filesystem::current_path() / "here").string());
}

BOOST_AUTO_TEST_CASE(profiles_of_both_files) {
    world w;
    w.file(".aws/credentials",
           "# mine\n[default]\naws_access_key_id = AKDEFAULT\r\naws_secret_access_key=S/+=  \n"
           "[ other ]\n  AWS_ACCESS_KEY_ID = AKOTHER # a comment\n"
           "  aws_secret_access_key = S2\n  aws_session_token = T2\n");
    w.file(".aws/config",
           "[default]\nregion = us-west-2\naws_access_key_id = NOT_THIS_ONE\n"
           "[profile other]\nregion = eu-north-1\nservices = mine\nendpoint_url = http://all\n"
           "s3 =\n  region = no\n  max_concurrent_requests = 20\noutput = json\n"
           "[profile 'quoted']\n[profile \"in config\"]\naws_access_key_id = AK3\n"
           "aws_secret_access_key = S3\nendpoint_url = http://e3\n"
           "[other]\nregion = no\n"
           "[services mine]\ndynamodb =\n  endpoint_url = http://db\n"
           "s3 = \n  endpoint_url = http://s3:9000\n");
    BOOST_CHECK((w.find() == cairn::s3_credentials{"AKDEFAULT", "S/+=", "", {}}));
    BOOST_TEST(read_profile(w.environment()).get("region") == "us-west-2");
    w.variables["AWS_PROFILE"] = "other";
    BOOST_CHECK((w.find() == cairn::s3_credentials{"AKOTHER", "S2", "T2", {}}));
    auto const p = read_profile(w.environment());
    BOOST_TEST(p.get("region") == "eu-north-1");
    BOOST_TEST(p.get("output") == "json");
    BOOST_TEST(p.s3_endpoint_url == "http://s3:9000");
    w.variables["AWS_PROFILE"] = "in config";
    BOOST_TEST(w.find().access_key == "AK3");
    BOOST_TEST(read_profile(w.environment()).s3_endpoint_url == "http://e3");
    w.variables["AWS_PROFILE"] = "absent";
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
    BOOST_CHECK(support::contains(w.error(), {"'absent'", ".aws/credentials", "AWS_PROFILE"}));
}

/// As in a container whose user has the home of root.
BOOST_AUTO_TEST_CASE(files_that_may_not_be_read_are_passed_over_unless_they_are_asked_for) {
    world w;
    w.file(".aws/credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = S\n");
    std::filesystem::permissions(w.s.dir / ".aws", std::filesystem::perms::none);
    uid_t const root = ::geteuid();
    if (root == 0 && ::seteuid(65534) != 0) {
        std::cout << "skipped: in this name space root cannot be another user\n";
        return;
    }
    struct again {
        uid_t user;
        const support::scratch& s;
        ~again() {
            if (user == 0) (void)!::seteuid(user);
            std::filesystem::permissions(s.dir / ".aws", std::filesystem::perms::owner_all);
        }
    } const afterwards{root, w.s};
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
    BOOST_CHECK(support::contains(w.error(), {"/.aws/", "may not be read", "anonymous()"}));
    BOOST_TEST(read_profile(w.environment()).get("region").empty());
    add_role(w.services);
    w.services.add(roles_url + "trainer", 200, json("ASIA", "2026-11-28T18:00:00Z"));
    BOOST_TEST(w.find().access_key == "ASIA");
    w.variables["AWS_PROFILE"] = "default";
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
    w.variables.erase("AWS_PROFILE");
    w.variables["AWS_SHARED_CREDENTIALS_FILE"] = (w.s.dir / ".aws/credentials").string();
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
}

BOOST_AUTO_TEST_CASE(profiles_that_are_none) {
    world w;
    auto const refused = [&](const std::string& text, std::initializer_list<const char*> parts) {
        w.file(".aws/credentials", text);
        BOOST_TEST_CONTEXT(text) {
            BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
            BOOST_CHECK(support::contains(w.error(), parts));
            BOOST_TEST(w.error().find("SECRET") == std::string::npos);
        }
    };
    refused("[default]\n\nSECRET\n", {".aws/credentials", "line 3"});
    refused("a = SECRET\n", {"line 1", "section"});
    refused("[default\n", {"line 1"});
    refused("[default]\naws_secret_access_key = SECRET\n", {"'default'", "aws_access_key_id"});
}

BOOST_AUTO_TEST_CASE(profiles_that_need_more_are_refused_by_name) {
    for (auto const& [text, setting] : std::map<std::string, std::string>{
             {"sso_session = x\n", "sso_session"},
             {"credential_process = /bin/x\n", "credential_process"},
             {"role_arn = r\nsource_profile = x\naws_access_key_id = a\n", "source_profile"},
             {"role_arn = r\ncredential_source = Environment\n", "credential_source"},
             {"role_arn = r\n", "role_arn"}}) {
        world w;
        add_role(w.services);  // never asked
        w.file(".aws/config", "[default]\n" + text);
        BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::unsupported));
        BOOST_CHECK(support::contains(w.error(), {setting.c_str(), "'default'", "export"}));
        BOOST_TEST(w.services.asked.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_web_identity_is_exchanged) {
    world w;
    w.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = w.file("token", "ey.J+/=\n");
    BOOST_CHECK(support::contains(w.error(), {"AWS_ROLE_ARN"}));
    w.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/x";
    w.variables["AWS_ROLE_SESSION_NAME"] = "me";
    w.variables["AWS_REGION"] = "cn-north-1";
    w.services.add("POST https://sts.cn-north-1.amazonaws.com.cn/", 503, "");
    w.services.add("POST https://sts.cn-north-1.amazonaws.com.cn/", 200, sts_answer("ASIA"));
    BOOST_CHECK((w.find() == cairn::s3_credentials{"ASIA", "SECRET", "TOKEN", start + 1h}));
    BOOST_TEST(w.services.asked.size() == 2U);
    BOOST_TEST(w.services.body ==
               "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%"
               "3Arole%2Fx&RoleSessionName=me&WebIdentityToken=ey.J%2B%2F%3D");

    w.variables["AWS_ENDPOINT_URL_STS"] = "http://localhost:9000/sts/";
    w.services.add("POST http://localhost:9000/sts/", 200, sts_answer("ASIA2"));
    BOOST_TEST(w.find().access_key == "ASIA2");
    w.variables.erase("AWS_ENDPOINT_URL_STS");
    w.variables.erase("AWS_REGION");
    w.file(".aws/config", "[default]\nregion = eu-west-3\n");
    w.services.add("POST https://sts.eu-west-3.amazonaws.com/", 200, sts_answer("ASIA3"));
    BOOST_TEST(w.find().access_key == "ASIA3");
    w.variables["AWS_REGION"] = "evil.example/";
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
}

/// As where all ranks of a large job begin: STS throttles with status 400.
BOOST_AUTO_TEST_CASE(a_throttled_web_identity_is_asked_for_again) {
    world w;
    w.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = w.file("token", "t");
    w.variables["AWS_ROLE_ARN"] = "r";
    auto const sts = "POST https://sts.amazonaws.com/";
    for (auto const* const code : {"Throttling", "ThrottlingException", "RequestLimitExceeded"})
        w.services.add(sts, 400, std::string("<Code>") + code + "</Code>");
    w.services.add(sts, 200, sts_answer("ASIA"));
    BOOST_TEST(w.find().access_key == "ASIA");
    BOOST_TEST(w.services.asked.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_web_identity_of_a_profile) {
    world w;
    w.file(".aws/config",
           "[default]\nregion = eu-west-3\nrole_arn = r\n"
           "web_identity_token_file = " +
               w.file("token", "t") + "\n");
    w.services.add("POST https://sts.eu-west-3.amazonaws.com/", 200, sts_answer("ASIA"));
    BOOST_TEST(w.find().access_key == "ASIA");
    BOOST_TEST(w.services.body.find("RoleSessionName=cairn-20261128T120000Z&") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_refused_web_identity_says_why_without_the_token) {
    world w;
    w.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = w.file("token", "ID-SECRET");
    w.variables["AWS_ROLE_ARN"] = "r";
    w.services.add("POST https://sts.amazonaws.com/", 403, "<Code>AccessDenied</Code>");
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
    BOOST_CHECK(support::contains(w.error(), {"https://sts.amazonaws.com", "403", "AccessDenied"}));
    BOOST_TEST(w.services.asked.size() == 2U);
    w.services = {};
    w.services.add("POST https://sts.amazonaws.com/", 200, "<a>SECRET</a>");
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::io));
    BOOST_TEST(w.error().find("SECRET") == std::string::npos);
    w.file("token", "\n");
    BOOST_CHECK(support::contains(w.error(), {"token", "an empty file"}));
    std::filesystem::remove(w.s.dir / "token");
    BOOST_CHECK(support::contains(w.error(), {"token", "no such file"}));
}

BOOST_AUTO_TEST_CASE(an_agent_of_a_container) {
    world w;
    w.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/credentials?id=1";
    w.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "in-the-environment";
    w.services.add("GET http://169.254.170.2/v2/credentials?id=1", 200,
                   json("ASIA", "2026-11-28T12:30:00Z"));
    BOOST_CHECK((w.find() == cairn::s3_credentials{"ASIA", "SECRET/+=", "TOKEN", start + 30min}));
    BOOST_CHECK(
        (w.services.requests.back().headers == fields{{"authorization", "in-the-environment"}}));
    w.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = w.file("agent", "in-a-file\n");
    (void)w.find();
    BOOST_CHECK((w.services.requests.back().headers == fields{{"authorization", "in-a-file"}}));
    w.file("agent", "two\nlines\n");
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
    BOOST_TEST(w.error().find("two") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_agent_elsewhere_needs_tls) {
    world w;
    for (auto const* good :
         {"https://example.com/x", "http://localhost/x", "http://127.1.2.3:99/x", "http://[::1]/x",
          "http://169.254.170.2/x", "http://169.254.170.23/x", "http://[fd00:ec2:0::23]/x"}) {
        w.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = good;
        w.services.add(std::string("GET ") + good, 200, json("ASIA", "2026-11-28T12:30:00Z"));
        BOOST_TEST_CONTEXT(good) {
            BOOST_CHECK(w.find().access_key == "ASIA");
        }
    }
    auto const asked = w.services.asked.size();
    for (auto const* bad :
         {"http://example.com/x", "http://127.0.0.1.example.com/x", "http://169.254.169.254/x",
          "http://localhost.example.com/x", "http://[fd00:ec2::24]/x", "http://0177.0.0.1/x"}) {
        w.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = bad;
        BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::invalid_argument));
        BOOST_CHECK(support::contains(w.error(), {"AWS_CONTAINER_CREDENTIALS_FULL_URI"}));
    }
    BOOST_TEST(w.services.asked.size() == asked);
}

BOOST_AUTO_TEST_CASE(an_agent_that_fails_is_not_passed_over) {
    world w;
    add_role(w.services);
    w.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://localhost/x?secret";
    auto const url = "GET http://localhost/x?secret=";
    w.services.add(url, 400, "{\"message\": \"not yours\"}");
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
    BOOST_CHECK(support::contains(w.error(), {"http://localhost'", "400", "not yours"}));
    BOOST_TEST(w.error().find("/x") == std::string::npos);  // on ECS, who has it gets the keys
    for (auto const& bad : {json("", "2026-11-28T12:30:00Z"), json("A", "SECRET"),
                            std::string("SECRET"), std::string("{\"Code\": \"Failed\"}")}) {
        w.services = {};
        w.services.add(url, 200, bad);
        BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::io));
        BOOST_TEST(w.error().find("SECRET/") == std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(a_role_of_a_virtual_machine) {
    world w;
    add_role(w.services);
    w.services.add(roles_url + "trainer", 200, json("ASIA", "2026-11-28T18:00:00Z"));
    BOOST_CHECK((w.find() == cairn::s3_credentials{"ASIA", "SECRET/+=", "TOKEN", start + 6h}));
    BOOST_REQUIRE(w.services.requests.size() == 3U);
    BOOST_CHECK((w.services.requests[0].headers ==
                 fields{{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}}));
    for (auto const i : {1U, 2U})
        BOOST_CHECK(
            (w.services.requests[i].headers == fields{{"x-aws-ec2-metadata-token", "SESSION"}}));
}

BOOST_AUTO_TEST_CASE(nothing_anywhere) {
    world w;
    BOOST_CHECK_EXCEPTION(w.find(), cairn::error, is(errc::permission_denied));
    BOOST_CHECK(support::contains(w.error(),
                                  {"AWS_ACCESS_KEY_ID", "'default'", "deadline", "anonymous()"}));
    w.services.add(token_url, 404, "");
    BOOST_CHECK(support::contains(w.error(), {"HTTP status 404"}));
    w.services = {};
    w.services.add(token_url, 200, "SESSION");
    w.services.add(roles_url, 404, "");
    BOOST_CHECK(support::contains(w.error(), {"no role"}));
    auto const asked = w.services.asked.size();
    w.variables["AWS_EC2_METADATA_DISABLED"] = "true";
    BOOST_CHECK(support::contains(w.error(), {"AWS_EC2_METADATA_DISABLED"}));
    BOOST_TEST(w.services.asked.size() == asked);
}

BOOST_AUTO_TEST_SUITE_END()
