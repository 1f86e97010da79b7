// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_SERVICE_ANSWER_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_SERVICE_ANSWER_IPP

#include <cairn/object_store/detail/s3/service_answer.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/retries.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>

#include <exception>

namespace cairn::detail::s3 {

/// Whether a service may answer otherwise soon. STS says so with status 400, too.
inline bool is_busy(const response& r) {
    if (r.status >= 500 || r.status == 429) return true;
    for (auto const* const code : {"IDPCommunicationError", "Throttling", "RequestLimitExceeded"})
        if (r.status >= 400 && r.body.find(code) != r.body.npos) return true;
    return false;
}

CAIRN_DECL response send_patiently(const sender& send, const request& r,
                                   std::chrono::milliseconds timeout) {
    for (retries patience(std::chrono::seconds(20));;) {
        response answer;
        std::exception_ptr failure;
        try {
            answer = send(r, timeout);
            if (!is_busy(answer)) return answer;
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::io) &&
                e.code() != make_error_code(errc::timed_out))
                throw;
            failure = std::current_exception();
        }
        auto const again = patience.next(answer);
        if (!again && failure) std::rethrow_exception(failure);
        if (!again) return answer;
        (void)retries::sleep_until(*again, [] { return false; });
    }
}

CAIRN_DECL void fail_answer(const response& r, const std::string& service) {
    bool const is_refusal = r.status >= 400 && r.status < 500 && !is_busy(r);
    bool const may_be_secret = r.status < 400 || r.body.find("SecretAccessKey") != r.body.npos;
    throw error(is_refusal ? errc::permission_denied : errc::io,
                {.file = service,
                 .expected = "credentials",
                 .found = "HTTP status " + std::to_string(r.status) +
                          (r.body.empty() || may_be_secret ? "" : ": " + shortened(r.body, 300))});
}

CAIRN_DECL s3_credentials credentials_of_json(const response& r, const std::string& service) {
    auto const refuse = [&](const std::string& found) {
        throw error(errc::io, {.file = service,
                               .expected = "a JSON object with AccessKeyId, SecretAccessKey, "
                                           "Token and Expiration",
                               .found = found});
    };
    s3_credentials c;
    try {
        auto const all = parse_json(r.body);
        if (auto const code = all.get<std::string>("Code", "Success"); code != "Success")
            refuse("Code " + shortened(code, 80));
        c.access_key = all.get<std::string>("AccessKeyId", "");
        c.secret_key = all.get<std::string>("SecretAccessKey", "");
        c.session_token = all.get<std::string>("Token", "");
        if (auto const when = all.get<std::string>("Expiration", ""); !when.empty())
            c.expires = parse_utc_time(when);
    } catch (const error& e) {
        if (!e.context().file.empty()) throw;
        refuse(e.context().found);
    }
    if (c.access_key.empty() || c.secret_key.empty()) refuse("none of the keys, or one of them");
    return c;
}

}  // namespace cairn::detail::s3

#endif
