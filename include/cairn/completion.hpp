// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMPLETION_HPP
#define CAIRN_COMPLETION_HPP

#include <cairn/error.hpp>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace cairn {

/// The empty result of an operation that only succeeds or fails.
struct done_t {};

/// Reports the result of one asynchronous operation of a backend.
///
/// Call it exactly once, from any thread, inside or after the call that received it:
/// `done(result)` or `done.fail(exception_ptr)`. A completion that is destroyed without having
/// been called reports @ref errc::abandoned, so a backend that drops it cannot block a save.
/// Move-only. Must not be called from two threads at once.
template <class T>
class completion {
    struct base {
        virtual ~base() = default;
        virtual void invoke(std::exception_ptr, std::optional<T>) noexcept = 0;
    };
    template <class F>
    struct holder final : base {
        explicit holder(F f) : f_(std::move(f)) {}
        void invoke(std::exception_ptr e, std::optional<T> r) noexcept override {
            f_(std::move(e), std::move(r));
        }
        F f_;
    };

public:
    /// @param f  Called as `f(exception_ptr, optional<T>)`, one of which is set. Must not throw.
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, completion> &&
                 std::is_invocable_v<F&, std::exception_ptr, std::optional<T>>)
    explicit completion(F f) : impl_(std::make_unique<holder<F>>(std::move(f))) {}
    completion(completion&&) noexcept = default;
    completion& operator=(completion&& other) noexcept {
        if (this != std::addressof(other)) {
            abandon();
            impl_ = std::move(other.impl_);
        }
        return *this;
    }
    ~completion() { abandon(); }

    void operator()(T result) { finish(nullptr, std::optional<T>(std::move(result))); }
    void operator()()
        requires std::is_same_v<T, done_t>
    {
        finish(nullptr, done_t{});
    }
    /// @param e  Not null: without an exception the operation would have neither failed nor
    ///           produced a result.
    void fail(std::exception_ptr e) {
        finish(e ? std::move(e) : without_result("a failure without an exception"), std::nullopt);
    }

private:
    void finish(std::exception_ptr e, std::optional<T> r) noexcept {
        if (auto f = std::move(impl_)) f->invoke(std::move(e), std::move(r));
    }
    void abandon() noexcept {
        if (impl_) finish(without_result({}), std::nullopt);
    }
    static std::exception_ptr without_result(const char* found) noexcept {
        try {
            return std::make_exception_ptr(
                error(errc::abandoned, {.found = found != nullptr ? found : "",
                                        .remedy = "the backend must call its completion"}));
        } catch (...) {  // no memory
            return std::current_exception();
        }
    }

    std::unique_ptr<base> impl_;
};

/// Starts an operation with `start(completion<T>)` and blocks the calling thread until it ends.
///
/// @return The operation's result.
/// @throws the operation's failure, or what `start` itself threw before it completed. Does not
/// return before the completion was called or dropped, so that it may refer to the caller's stack.
template <class T, class Start>
T await_completion(Start&& start) {
    struct shared {
        std::mutex m;
        std::condition_variable cv;
        bool ended = false;
        std::exception_ptr failure;
        std::optional<T> result;
    };
    auto const s = std::make_shared<shared>();
    completion<T> done([s](std::exception_ptr e, std::optional<T> r) {
        std::lock_guard lock(s->m);
        s->failure = std::move(e);
        s->result = std::move(r);
        s->ended = true;
        s->cv.notify_all();
    });
    std::exception_ptr thrown;
    try {
        std::forward<Start>(start)(std::move(done));
    } catch (...) {
        thrown = std::current_exception();
    }
    std::unique_lock lock(s->m);
    s->cv.wait(lock, [&] { return s->ended; });
    // A completed operation, e.g. a commit, has succeeded, even if its backend throws afterwards.
    if (thrown && !s->result) std::rethrow_exception(thrown);
    if (s->failure) std::rethrow_exception(s->failure);
    return std::move(*s->result);
}

}  // namespace cairn

#endif
