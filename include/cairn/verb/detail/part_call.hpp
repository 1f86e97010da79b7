// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_PART_CALL_HPP
#define CAIRN_VERB_DETAIL_PART_CALL_HPP

#include <cairn/completion.hpp>
#include <cairn/verb/detail/post_to.hpp>
#include <cairn/verb/operation_thread.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace cairn::detail {

/// How a call of a part has ended: one of the two is set.
template <class T>
struct call_result {
    std::exception_ptr failure{};
    std::optional<T> value{};

    /// @throws the failure
    T get() {
        if (failure) std::rethrow_exception(failure);
        return std::move(*value);
    }
};

/// Calls a part that reports its result later, `start(completion<T>)`, and then, on the executor,
/// `then(call_result<T>)`; never inside this call.
///
/// `then` runs after the call has returned *and* its completion was called or dropped, so that
/// what the call borrows may end with it. A result stands, even if the call throws afterwards: a
/// commit has then happened.
template <class T>
void call_part(const boost::asio::any_io_executor& on,
               const std::function<void(completion<T>)>& start,
               std::function<void(call_result<T>)> then) {
    struct call {
        std::mutex m{};
        bool half = false;  ///< It has returned, or completed.
        std::exception_ptr thrown{};
        call_result<T> result{};
        std::function<void(call_result<T>)> then;
        boost::asio::any_io_executor on;
        std::thread::id started_on = std::this_thread::get_id();

        /// The executor has ended if the continuation is still here. It must not end on a thread
        /// of the backend's, which it may own, and which then would join itself.
        ~call() {
            if (!then || std::this_thread::get_id() == started_on) return;
            try {
                using next = std::function<void(call_result<T>)>;
                destroy_elsewhere(std::make_shared<next>(std::move(then)));
            } catch (...) {  // no memory
            }
        }
        /// Notes that one half, the call or its completion, has ended.
        /// @return Whether the other half has ended too.
        bool ended() {
            std::lock_guard const lock(m);
            return std::exchange(half, true);
        }
        static void resume(const std::shared_ptr<call>& c) noexcept {
            if (c->thrown && !c->result.value) c->result.failure = c->thrown;
            // The backend's thread may drop `c` last: what the continuation keeps ends before.
            auto const to = c->on;
            resume_on<&call::proceed>(to, c);
        }
        void proceed() noexcept {
            auto const next = std::exchange(then, nullptr);
            try {
                next(std::move(result));
            } catch (...) {  // no memory to continue: what is waiting ends as if dropped
            }
        }
    };
    auto c = std::make_shared<call>();
    c->then = std::move(then);
    c->on = on;
    completion<T> done([c](std::exception_ptr e, std::optional<T> v) mutable {
        auto const mine = std::move(c);
        mine->result = {std::move(e), std::move(v)};
        if (mine->ended()) call::resume(mine);
    });
    try {
        start(std::move(done));
    } catch (...) {
        c->thrown = std::current_exception();
    }
    auto const mine = std::move(c);
    if (mine->ended()) call::resume(mine);
}

}  // namespace cairn::detail

#endif
