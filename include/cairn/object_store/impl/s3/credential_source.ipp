// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_CREDENTIAL_SOURCE_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_CREDENTIAL_SOURCE_IPP

#include <cairn/object_store/detail/s3/credentials.hpp>

#include <cairn/object_store/detail/heeded_stop.hpp>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <utility>

namespace cairn::detail::s3 {

/// Of one process.
struct credential_source::state {
    std::mutex m{};
    std::condition_variable done{};
    std::shared_ptr<const s3_credentials> current{};
    bool looking = false;
    std::uint64_t rounds = 0;
    std::exception_ptr failure{};  ///< Of the last round, which ended then:
    std::chrono::system_clock::time_point looked{};
    std::chrono::system_clock::time_point next_try{};

    bool holds(std::chrono::system_clock::time_point now) const {
        return current && (!current->expires || now < *current->expires);
    }
};

CAIRN_DECL bool is_about_expiry(std::string_view code) noexcept {
    return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired";
}

CAIRN_DECL credential_source::credential_source(std::optional<s3_credentials> given,
                                                aws_environment e, sender send, clock now)
    : given_(given ? std::make_shared<const s3_credentials>(*std::move(given)) : nullptr),
      environment_(std::move(e)), send_(std::move(send)), now_(std::move(now)),
      state_(std::make_unique<state>()) {}

CAIRN_DECL credential_source::~credential_source() = default;

CAIRN_DECL credential_source::state& credential_source::here() {
    return state_.here([] { return std::make_unique<state>(); });
}

CAIRN_DECL std::shared_ptr<const s3_credentials> credential_source::get() {
    if (given_) return given_;
    auto& s = here();
    auto const now = now_();
    {
        std::lock_guard const lock(s.m);
        // Each of many removals at the end of a failed save would wait for a service that is away.
        bool const has_just_looked = s.looked <= now && now < s.looked + after_failure;
        if (s.failure && !s.looking && !s.holds(now) && has_just_looked)
            std::rethrow_exception(s.failure);
        bool const is_due = !s.current || (s.current->expires && s.next_try <= now &&
                                           *s.current->expires - early <= now);
        if (!is_due || (s.looking && s.holds(now))) return s.current;
    }
    return find(s, true);
}

CAIRN_DECL std::shared_ptr<const s3_credentials> credential_source::renew(
    const s3_credentials& refused) {
    if (given_) return given_;
    auto& s = here();
    {
        std::lock_guard const lock(s.m);
        if (s.current && *s.current != refused) return s.current;
    }
    return find(s, false);
}

CAIRN_DECL std::shared_ptr<const s3_credentials> credential_source::find(state& s,
                                                                         bool old_will_do) {
    std::unique_lock lock(s.m);
    if (s.looking) {
        auto const round = s.rounds;
        s.done.wait(lock, [&] { return s.rounds != round; });
    } else {
        s.looking = true;
        lock.unlock();
        std::shared_ptr<const s3_credentials> found;
        std::exception_ptr failure;
        // It is for all that wait: whether this thread's verb is cancelled is its own affair.
        heeded_stop const for_all{std::stop_token()};
        try {
            found = std::make_shared<const s3_credentials>(
                find_credentials(environment_, send_, now_()));
        } catch (...) {
            failure = std::current_exception();
        }
        auto const now = now_();
        lock.lock();
        if (found) s.current = std::move(found);
        s.failure = failure;
        // What is found may expire at once by this host's clock: the service decides.
        s.next_try = !failure || s.holds(now) ? now + between_attempts : now;
        s.looked = now;
        s.looking = false;
        ++s.rounds;
        s.done.notify_all();
    }
    if (s.failure && !(old_will_do && s.holds(now_()))) std::rethrow_exception(s.failure);
    return s.current;
}

}  // namespace cairn::detail::s3

#endif
