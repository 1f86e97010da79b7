// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_FAULT_HPP
#define CAIRN_TEST_SUPPORT_S3_FAULT_HPP

#include "support/s3/message.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace s3_server {

struct world;

/// Whether a request that fails has its effect all the same.
enum class effect { none, done };

/// What goes wrong with one request.
struct fault {
    enum class way {
        answer,         ///< `status` and `code` are answered; without a code, a page of a proxy.
        early_answer,   ///< The same before the body was read; the connection is closed.
        reset,          ///< The connection is reset after the request was read.
        early_reset,    ///< The same before the body was read.
        close,          ///< The connection ends in order, without an answer.
        garbled,        ///< Before the answer comes the end of another one's body.
        stall,          ///< Nothing happens for a time; then all is well.
        late,           ///< No answer; the effect comes a time after the client has gone.
        drip,           ///< The body of the answer comes byte by byte, each after a pause.
        reset_in_body,  ///< The connection is reset in the middle of the answer's body.
        short_body,     ///< It ends in order before all of `Content-Length` was sent.
        unsaid_end,     ///< The same without `Content-Length`, as behind a proxy of HTTP/1.0.
        wrong_byte,     ///< A byte of the answer's body differs.
        old_listing,    ///< A listing shows what was there `age` requests ago.
        error_in_body,  ///< The answer is 200, and `code` is in its body.
        wrong_etag,     ///< Neither the old ETag nor the new one.
        no_range,       ///< A range is answered with 200 and the whole.
        other_range,    ///< As many bytes, from the beginning, as a cache may have them.
        unsaid_range    ///< The answer does not say of which range it is.
    };
    way what = way::answer;
    effect has = effect::none;
    int status = 500;
    std::string code = "InternalError";
    fields headers{};  ///< Of the answer, besides the usual ones.
    std::chrono::milliseconds stalls{0};
    std::size_t age = 0;
    std::function<void(world&)> then{};  ///< What others do right after its effect; may be empty.
    std::set<kind> only{};               ///< The requests that it can happen to; empty: all.
    std::string message = "injected";    ///< With `code`.
    std::string body{};                  ///< Of the answer, in place of an error; may be empty.

    bool applies_to(kind k) const { return only.empty() || only.count(k) != 0; }
    bool has_effect() const { return has == effect::done; }
    /// For messages of tests.
    std::string name() const {
        static constexpr const char* names[] = {
            "answer",     "early answer", "reset",       "early reset", "close",
            "garbled",    "stall",        "late",        "drip",        "reset in body",
            "short body", "unsaid end",   "wrong byte",  "old listing", "error in body",
            "wrong ETag", "no range",     "other range", "unsaid range"};
        auto n = std::string(names[static_cast<int>(what)]);
        if (what == way::answer || what == way::early_answer) n += " " + std::to_string(status);
        if (what == way::answer || what == way::error_in_body) n += " " + code;
        return n + (has_effect() ? ", with effect" : "");
    }
};

/// The faults that servers, networks and proxies are known for.
namespace faults {

inline const std::set<kind> writes{kind::put_object, kind::complete_upload};
inline const std::set<kind> listings{kind::list_objects, kind::list_uploads};
inline const std::set<kind> answered_with_body{kind::get_object,      kind::list_objects,
                                               kind::list_uploads,    kind::create_upload,
                                               kind::complete_upload, kind::delete_objects};

inline fault answer(int status, std::string code, effect has = effect::none) {
    return {.has = has, .status = status, .code = std::move(code)};
}
inline fault internal_error(effect has = effect::none) {
    return answer(500, "InternalError", has);
}
inline fault slow_down() {
    return answer(503, "SlowDown");
}
inline fault too_many_requests() {
    return answer(429, "TooManyRequests");
}
/// The connection closes behind the answer, which comes before the body was read.
inline fault early_answer(int status, std::string code) {
    return {.what = fault::way::early_answer, .status = status, .code = std::move(code)};
}
inline fault conflict(effect has = effect::none) {
    auto f = answer(409, "ConditionalRequestConflict", has);
    f.only = writes;
    return f;
}
inline fault precondition_failed(effect has = effect::none) {
    auto f = answer(412, "PreconditionFailed", has);
    f.only = writes;
    return f;
}
/// With an effect: an earlier try of whoever stands between has succeeded.
inline fault no_such_upload(effect has) {
    auto f = answer(404, "NoSuchUpload", has);
    f.only = {kind::upload_part, kind::complete_upload, kind::abort_upload};
    return f;
}
inline fault entity_too_small() {
    auto f = answer(400, "EntityTooSmall");
    f.only = {kind::complete_upload};
    return f;
}
/// @param status  301 or 307.
inline fault redirect(int status, std::string region) {
    auto f = answer(status, status == 301 ? "PermanentRedirect" : "TemporaryRedirect");
    f.headers.emplace_back("x-amz-bucket-region", std::move(region));
    return f;
}
inline fault reset(effect has) {
    return {.what = fault::way::reset, .has = has};
}
inline fault early_reset() {
    return {.what = fault::way::early_reset};
}
inline fault close(effect has) {
    return {.what = fault::way::close, .has = has};
}
inline fault garbled() {
    return {.what = fault::way::garbled, .has = effect::done};
}
/// @param has  Whether the effect comes before the time in which nothing happens.
inline fault stall(std::chrono::milliseconds t, effect has = effect::none) {
    return {.what = fault::way::stall, .has = has, .stalls = t};
}
inline fault late(std::chrono::milliseconds t) {
    return {.what = fault::way::late, .stalls = t};
}
/// @param t  Before each byte.
inline fault drip(std::chrono::milliseconds t) {
    return {.what = fault::way::drip, .has = effect::done, .stalls = t, .only = answered_with_body};
}
inline fault reset_in_body() {
    return {.what = fault::way::reset_in_body, .has = effect::done, .only = answered_with_body};
}
inline fault short_body() {
    return {.what = fault::way::short_body, .has = effect::done, .only = answered_with_body};
}
inline fault unsaid_end(kind of = kind::get_object) {
    return {.what = fault::way::unsaid_end, .has = effect::done, .only = {of}};
}
inline fault wrong_byte() {
    return {.what = fault::way::wrong_byte, .has = effect::done, .only = {kind::get_object}};
}
inline fault old_listing(std::size_t requests_ago) {
    return {.what = fault::way::old_listing,
            .has = effect::done,
            .age = requests_ago,
            .only = listings};
}
inline fault error_in_body(effect has) {
    return {.what = fault::way::error_in_body, .has = has, .only = {kind::complete_upload}};
}
inline fault wrong_etag() {
    return {.what = fault::way::wrong_etag,
            .has = effect::done,
            .only = {kind::put_object, kind::get_object, kind::head_object, kind::upload_part,
                     kind::complete_upload}};
}
inline fault no_range() {
    return {.what = fault::way::no_range, .has = effect::done, .only = {kind::get_object}};
}
inline fault other_range() {
    return {.what = fault::way::other_range, .has = effect::done, .only = {kind::get_object}};
}
inline fault unsaid_range() {
    return {.what = fault::way::unsaid_range, .has = effect::done, .only = {kind::get_object}};
}

/// Those after which the same request may succeed.
inline std::vector<fault> transient() {
    return {internal_error(),
            internal_error(effect::done),
            slow_down(),
            too_many_requests(),
            early_answer(503, "SlowDown"),
            conflict(),
            reset(effect::none),
            reset(effect::done),
            early_reset(),
            close(effect::none),
            close(effect::done),
            garbled(),
            reset_in_body(),
            short_body(),
            error_in_body(effect::none),
            error_in_body(effect::done),
            no_such_upload(effect::done),
            answer(520, "", effect::done),
            answer(404, ""),
            answer(404, "", effect::done)};
}

}  // namespace faults

}  // namespace s3_server

#endif
