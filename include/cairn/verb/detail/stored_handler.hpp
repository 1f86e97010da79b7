// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_STORED_HANDLER_HPP
#define CAIRN_VERB_DETAIL_STORED_HANDLER_HPP

#include <cairn/detail/context_gate.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/verb/operation_thread.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Prints an error that cannot be reported otherwise: one line on standard error.
inline void print_unclaimed(const std::exception_ptr& e) noexcept {
    try {
        std::fprintf(stderr, "cairn: %s\n", text_of(e).c_str());
    } catch (...) {  // no memory for the text
        std::fputs("cairn: an error that could not be reported\n", stderr);
    }
}
/// Passes such an error to the function of an option, if there is one; prints it otherwise.
inline void report_unclaimed(const std::function<void(const std::exception_ptr&)>& to,
                             const std::exception_ptr& e) noexcept {
    try {
        if (to) return to(e);
    } catch (...) {
        print_unclaimed(std::current_exception());
    }
    print_unclaimed(e);
}

template <class A, class B>
inline constexpr bool is_of_one_template = false;
template <template <class...> class T, class... A, class... B>
inline constexpr bool is_of_one_template<T<A...>, T<B...>> = true;

/// The executors of handlers that name none, and of futures: they run on threads of Asio's, which
/// do not exist in a forked child, although its exit waits for them.
template <class Executor>
inline constexpr bool is_anywhere =
    std::is_same_v<Executor, boost::asio::system_executor> ||
    is_of_one_template<Executor, boost::asio::detail::promise_executor<void>>;

/// A completion handler that is kept until its operation ends; meanwhile its executor has work.
/// Ends, without being called, with the context of its executor. Empty after a move and after
/// `complete`.
template <class... Args>
class stored_handler {
    struct base {
        virtual ~base() = default;
        virtual void complete(const context_gate::pass& in, Args... args) = 0;
        virtual boost::asio::cancellation_slot slot() const noexcept = 0;
        virtual context_gate::pass pass() = 0;
    };
    template <class Handler>
    struct holder final : base {
        using executor = boost::asio::associated_executor_t<Handler>;
        struct content {
            explicit content(Handler h)
                : handler(std::move(h)), work(boost::asio::get_associated_executor(handler)) {}
            Handler handler;
            boost::asio::executor_work_guard<executor> work;
        };

        explicit holder(Handler h)
            : slot_(boost::asio::get_associated_cancellation_slot(h)),
              content_{gate(boost::asio::get_associated_executor(h)), content(std::move(h))} {
        }  // in this order
        void complete(const context_gate::pass& in, Args... args) override {
            auto& c = content_.get(in);
            auto const allocator = boost::asio::get_associated_allocator(c.handler);
            auto on = c.work.get_executor();
            auto call = [home = home_process(), h = std::move(c.handler), work = std::move(c.work),
                         ... values = std::move(args)]() mutable {
                if (!home.is_this()) return;
                // The user orders emitting and what the executor runs; without an executor nobody
                // can, and the slot keeps a function that has no effect any more.
                if constexpr (!is_anywhere<executor>) {
                    auto slot = boost::asio::get_associated_cancellation_slot(h);
                    if (slot.is_connected()) slot.clear();
                }
                if constexpr (std::is_same_v<executor, boost::asio::system_executor>) {
                    try {
                        std::move(h)(std::move(values)...);
                    } catch (...) {
                        print_unclaimed(std::current_exception());
                    }
                } else {
                    std::move(h)(std::move(values)...);
                }
            };
            if constexpr (is_anywhere<executor>) {
                auto const there = new_operation_thread("the handler of a save or load");
                boost::asio::post(there.executor, [on, c = std::move(call)]() mutable {
                    boost::asio::dispatch(on, std::move(c));
                });
            } else {
                boost::asio::post(on, boost::asio::bind_allocator(allocator, std::move(call)));
            }
        }
        /// Asking such an executor for its context would start Asio's threads.
        static std::shared_ptr<context_gate> gate([[maybe_unused]] const executor& on) {
            if constexpr (is_anywhere<executor>)
                return std::make_shared<context_gate>();
            else
                return gate_of(on);
        }
        boost::asio::cancellation_slot slot() const noexcept override { return slot_; }
        context_gate::pass pass() override { return content_.pass(); }
        boost::asio::cancellation_slot slot_;
        kept_by_context<content> content_;
    };

public:
    stored_handler() = default;
    template <class Handler>
        requires(!std::is_same_v<Handler, stored_handler>)
    explicit stored_handler(Handler h) : of_(std::make_unique<holder<Handler>>(std::move(h))) {}
    explicit operator bool() const noexcept { return of_ != nullptr; }

    boost::asio::cancellation_slot slot() const noexcept { return of_->slot(); }
    /// Keeps the handler's context from ending; false if it has ended, and the handler with it.
    context_gate::pass pass() const { return of_->pass(); }
    /// Posts the handler to its executor. Without one it runs on a thread of its own, where what it
    /// throws is printed.
    /// @param in  What `pass` has returned, and true.
    void complete(const context_gate::pass& in, Args... args) {
        std::exchange(of_, nullptr)->complete(in, std::move(args)...);
    }
    /// The same, unless its context has ended.
    void complete(Args... args) {
        auto const of = std::exchange(of_, nullptr);
        auto const in = of->pass();
        if (in) of->complete(in, std::move(args)...);
    }

private:
    std::unique_ptr<base> of_{};
};

/// Returns a handler with the executor, slot and allocator of the given one, that calls
/// `f(handler, arguments...)` where that one is to run.
template <class Handler, class F>
auto adapted(Handler handler, F f) {
    auto const on = boost::asio::get_associated_executor(handler);
    auto const slot = boost::asio::get_associated_cancellation_slot(handler);
    auto const allocator = boost::asio::get_associated_allocator(handler);
    auto call = [h = std::move(handler), f = std::move(f)](auto&&... args) mutable {
        f(std::move(h), std::forward<decltype(args)>(args)...);
    };
    return boost::asio::bind_executor(
        on, boost::asio::bind_cancellation_slot(
                slot, boost::asio::bind_allocator(allocator, std::move(call))));
}

}  // namespace cairn::detail

#endif
