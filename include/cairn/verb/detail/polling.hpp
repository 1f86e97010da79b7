// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_POLLING_HPP
#define CAIRN_VERB_DETAIL_POLLING_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/error.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace cairn::detail {

/// Describes the error of copies that have not completed in time.
/// @param copies  E.g. "copies from cuda:0".
inline error_context late_copies(const std::string& copies, const std::string& fqn) {
    return {.fqn = fqn,
            .expected = copies + " to complete within exchange_timeout",
            .found = "some that have not",
            .remedy = "if a kernel that they wait for takes that long, raise exchange_timeout"};
}

/// Waits for something that sends no notification, such as a device's copies: polls on the
/// executor, and holds no thread meanwhile.
class polling {
public:
    using then = std::function<void(std::exception_ptr)>;

    /// @param in  Outlives this.
    explicit polling(const surroundings& in) : in_(in) {}
    polling(polling&&) = delete;

    /// Calls `over` until it returns true, and then `f`, on the executor: with a failure if `over`
    /// throws, or has not returned true within `timeout` of the last call of `moved`, or of this
    /// one. `f` keeps this alive.
    /// @param late  Describes what is waited for, for the error.
    void run(std::function<bool()> over, std::chrono::milliseconds timeout,
             std::function<error_context()> late, then f) {
        over_ = std::move(over);
        late_ = std::move(late);
        timeout_ = timeout;
        moved();
        ask(f);
    }
    /// Called by `over` when a part of what is waited for has completed.
    void moved() {
        auto const now = in_.now();
        until_ = patient_deadline(deadline_after(timeout_, now), now);
        pause_ = std::chrono::microseconds(20);
    }

private:
    void ask(const then& f) {
        std::exception_ptr failure;
        for (;;) {
            bool over = false;
            try {
                over = over_();
                if (!over && until_.has_passed(in_.now())) throw error(errc::timed_out, late_());
            } catch (...) {
                failure = std::current_exception();
            }
            if (over || failure) break;
            try {
                return again(f);
            } catch (...) {  // no memory: the copies are waited for nevertheless
                std::this_thread::sleep_for(pause_);
            }
        }
        f(failure);
    }
    void again(const then& f) {
        // Ends with its handler, hence with the context at the latest.
        auto const timer = std::make_shared<boost::asio::steady_timer>(in_.executor, pause_);
        pause_ = std::min(pause_ * 2, std::chrono::microseconds(1000));
        timer->async_wait([this, f, timer, home = home_process()](const error_code&) {
            if (home.is_this()) ask(f);
        });
    }

    const surroundings& in_;
    std::function<bool()> over_{};
    std::function<error_context()> late_{};
    std::chrono::milliseconds timeout_{};
    patient_deadline until_{};
    std::chrono::microseconds pause_{};
};

}  // namespace cairn::detail

#endif
