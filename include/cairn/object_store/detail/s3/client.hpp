// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CLIENT_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CLIENT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/call.hpp>
#include <cairn/object_store/detail/s3/credentials.hpp>
#include <cairn/object_store/detail/s3/http.hpp>
#include <cairn/object_store/detail/s3/settings.hpp>
#include <cairn/object_store/s3_options.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace cairn::detail::s3 {

/// Requests to one bucket: signed, sent, and tried again where that may help.
///
/// Thread-safe. Not for forked children.
class client {
public:
    /// @param s  Must outlive this.
    CAIRN_DECL explicit client(const store_settings& s);

    /// Returns a call about an object.
    CAIRN_DECL call about(const char* method, std::string key, const char* right) const;
    /// Returns how it ended. What may pass is tried again until it has passed or `retry_for` is
    /// over; a wrong clock, a wrong region and credentials that have expired are put right.
    /// @throws what the source of the credentials throws
    CAIRN_DECL answer send(const call& c);
    /// @throws error if it has not succeeded
    CAIRN_DECL answer expect(const call& c);
    /// Returns the error for an answer that is no success.
    CAIRN_DECL error failure(const call& c, const answer& a) const;

    CAIRN_DECL s3_statistics statistics() const noexcept;
    /// The server's time, as far as it is known.
    CAIRN_DECL std::chrono::system_clock::time_point now() const noexcept;
    const store_settings& options() const noexcept { return s_; }

private:
    struct trying;

    response ask(const request& r, std::chrono::milliseconds timeout);
    request make(const call& c, const trying& t) const;
    http::terms terms_of(const call& c) const;
    answer try_once(const call& c, trying& t);
    answer exchange(const call& c, const trying& t);
    void explain_head(const call& c, const trying& t, answer& a);
    bool put_right(trying& t, const answer& a);
    bool follow(const answer& a, trying& t);
    bool set_clock(const answer& a);
    std::string region() const;

    const store_settings& s_;
    http http_;
    credential_source credentials_;
    mutable std::mutex m_{};               ///< Protects the next member.
    std::string region_;                   ///< As the server names it.
    std::atomic<std::int64_t> behind_{0};  ///< Seconds that this clock is behind the server's.
    std::atomic<bool> bucket_is_there_{false};
    std::atomic<bool> has_answered_{false};  ///< S3, whatever it said.
    std::atomic<std::uint64_t> requests_{0}, retries_{0}, throttled_{0}, sent_{0}, received_{0};
};

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/client.ipp>
#include <cairn/object_store/impl/s3/failure.ipp>
#endif

#endif
