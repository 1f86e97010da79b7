// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CALL_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CALL_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/request.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace cairn::detail::s3 {

/// What the store asks of S3: a request before it has a host, a signature and headers of the
/// options.
struct call {
    std::string method = "GET";
    std::string key{};       ///< Empty: about the bucket.
    std::string what{};      ///< The object, for errors, as `describe` names it.
    const char* right = "";  ///< That a key must have for it.
    fields query{};
    fields headers{};
    byte_span body{};
    std::span<std::byte> into{};       ///< As in `request`.
    std::size_t most_body = 16 << 20;  ///< A longer answer is refused.
    std::uint64_t expected = 0;        ///< Bytes of the answer that take their time, beside `into`.
    bool creates = false;              ///< With the headers of new objects.
    bool may_fail_late = false;        ///< An answer of status 200 may have an error in its body.
    /// Asked before each other try. With it, nobody else sends the request again (libcurl).
    std::function<bool()> may_repeat{};
    const std::atomic<bool>* stop = nullptr;  ///< Ends it when it becomes true.
    /// Its failure leaves something that others remove: it does not wait for long.
    bool tidies = false;
};

/// How long a call that tidies is tried again, and how long each try takes.
inline constexpr std::chrono::seconds patience_to_tidy{5};

/// How a call has ended.
struct answer {
    response got{};         ///< Status 0: there was none.
    std::string failure{};  ///< Why there was none.
    std::string asked{};    ///< The host, as `https://host`; empty if none was asked.
    std::string code{};     ///< S3's name of an error; empty if the answer has none.
    std::string message{};  ///< Its words.
    std::string region{};   ///< Of the bucket, if the answer names it.
    std::optional<std::chrono::system_clock::time_point> server_time{};  ///< If it says it.
    /// A try that seems to have failed may have had its effect, or may still have it.
    bool in_doubt = false;
    /// What came is not S3's: a page, e.g. of a proxy, or what another service says.
    bool is_page = false;
    bool stopped = false;   ///< By `stop`.
    bool hopeless = false;  ///< Another try would fail alike.
    std::size_t tries = 0;
    bool changed_before = false;  ///< An earlier try has failed by @ref is_changed_on_the_way.

    bool ok() const noexcept { return got.status >= 200 && got.status < 300; }
    bool is(int status) const noexcept { return got.status == status; }
    /// Whether there is no such object, as it says.
    bool is_missing() const noexcept { return is(404) && code != "NoSuchBucket"; }
};

/// Whether what arrived was not what was sent, e.g. because a byte changed.
CAIRN_DECL bool is_changed_on_the_way(const answer& a);
/// Whether another try may succeed.
CAIRN_DECL bool is_transient(const answer& a);

}  // namespace cairn::detail::s3

#endif
