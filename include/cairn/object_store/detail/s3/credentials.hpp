// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CREDENTIALS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CREDENTIALS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/aws_environment.hpp>
#include <cairn/object_store/detail/s3/one_per_process.hpp>
#include <cairn/object_store/detail/s3/sender.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::detail::s3 {

/// Looks for credentials where AWS's SDKs do, in their order: the environment, a web identity, the
/// profile, the container's agent, the virtual machine's.
/// @throws error errc::permission_denied if there are none, with what each place said;
/// errc::invalid_argument for half of a pair; errc::unsupported for a profile that needs more
CAIRN_DECL s3_credentials find_credentials(const aws_environment& e, const sender& send,
                                           std::chrono::system_clock::time_point now);

/// Whether a refusal (the code of an S3 error) means that newer credentials may be accepted.
CAIRN_DECL bool is_about_expiry(std::string_view code) noexcept;

/// The credentials of a store: found when they are first asked for, kept, and found again some
/// minutes before they expire. Any thread may call any function; one of them looks, and others go
/// on with what they have while it holds. A forked child looks for its own.
class credential_source {
public:
    using clock = std::function<std::chrono::system_clock::time_point()>;

    /// @param given  Used as they are, if any; they may be anonymous.
    credential_source(std::optional<s3_credentials> given, aws_environment e, sender send,
                      clock now = std::chrono::system_clock::now);
    credential_source(credential_source&&) = delete;
    ~credential_source();

    std::shared_ptr<const s3_credentials> get();

    /// Returns others than those that the service has refused as expired; the same ones if there
    /// are no others.
    std::shared_ptr<const s3_credentials> renew(const s3_credentials& refused);

    /// How long before they expire credentials are found again.
    static constexpr std::chrono::minutes early{5};
    /// After an attempt that brought nothing new, while the old ones hold.
    static constexpr std::chrono::minutes between_attempts{1};
    /// After one that failed, where none hold: until then it fails at once.
    static constexpr std::chrono::seconds after_failure{5};

private:
    struct state;
    state& here();
    std::shared_ptr<const s3_credentials> find(state& s, bool old_will_do);

    std::shared_ptr<const s3_credentials> given_;
    aws_environment environment_;
    sender send_;
    clock now_;
    one_per_process<state> state_;
};

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/credential_source.ipp>
#include <cairn/object_store/impl/s3/find_credentials.ipp>
#endif

#endif
