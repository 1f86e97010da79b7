// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_STORED_HANDLER_HPP
#define CAIRN_DETAIL_STORED_HANDLER_HPP

#include <cairn/detail/failures.hpp>

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Says what went wrong where nobody can be told: one line on standard error.
inline void print_unclaimed(const std::exception_ptr& e) noexcept {
    try {
        std::fprintf(stderr, "cairn: %s\n", text_of(e).c_str());
    } catch (...) {  // no memory for the text
        std::fputs("cairn: an error that nobody claimed\n", stderr);
    }
}

/// A completion handler that is kept until its operation ends; meanwhile its executor has work.
/// Empty after a move and after `complete`.
template <class... Args>
class stored_handler {
    using handler = boost::asio::any_completion_handler<void(Args...)>;
    using executor = boost::asio::any_completion_executor;

public:
    stored_handler() = default;
    explicit stored_handler(handler h) : handler_(std::move(h)) {
        auto const none = executor(boost::asio::system_executor());
        auto const own = boost::asio::get_associated_executor(handler_, none);
        has_own_ = own != none;
        work_.emplace(own);
    }
    explicit operator bool() const noexcept { return static_cast<bool>(handler_); }

    boost::asio::cancellation_slot slot() const noexcept {
        return boost::asio::get_associated_cancellation_slot(handler_);
    }
    /// Posts the handler to its executor. Without one it runs on a thread of Asio's, where what it
    /// throws is printed.
    void complete(Args... args) {
        auto guard = std::move(*work_);
        work_.reset();
        auto const own = guard.get_executor();
        boost::asio::post(own, [h = std::move(handler_), catches = !has_own_,
                                guard = std::move(guard),
                                ... values = std::move(args)]() mutable {
            // Slots may be cleared here only: emitting and completing are the user's to order.
            if (auto s = boost::asio::get_associated_cancellation_slot(h); s.is_connected())
                s.clear();
            if (!catches) return std::move(h)(std::move(values)...);
            try {
                std::move(h)(std::move(values)...);
            } catch (...) {
                print_unclaimed(std::current_exception());
            }
        });
    }

private:
    handler handler_{};
    bool has_own_ = false;
    std::optional<boost::asio::executor_work_guard<executor>> work_{};
};

}  // namespace cairn::detail

#endif
