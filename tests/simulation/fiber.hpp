// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_FIBER_HPP
#define CAIRN_TEST_SIMULATION_FIBER_HPP

#include <cairn/object_store/detail/heeded_stop.hpp>

#include <cxxabi.h>
#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CAIRN_TEST_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define CAIRN_TEST_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define CAIRN_TEST_TSAN 1
#endif
#ifdef CAIRN_TEST_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CAIRN_TEST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simulation {

/// A function on a stack of its own, which can pause in the middle of a call that blocks.
class fiber {
    static constexpr std::size_t stack_bytes = 512 * 1024;
    using stack = std::unique_ptr<std::byte[]>;

public:
    explicit fiber(std::function<void()> f) : f_(std::move(f)), stack_(take_stack()) {
        ::getcontext(&here_);
        here_.uc_stack.ss_sp = stack_.get();
        here_.uc_stack.ss_size = stack_bytes;
        here_.uc_link = nullptr;
        ::makecontext(&here_, &fiber::enter, 0);
#ifdef CAIRN_TEST_TSAN
        tsan_ = __tsan_create_fiber(0);
#endif
    }
    fiber(fiber&&) = delete;
    /// It has ended.
    ~fiber() {
        spare().push_back(std::move(stack_));
#ifdef CAIRN_TEST_TSAN
        __tsan_destroy_fiber(tsan_);
#endif
    }

    /// Runs until it pauses or ends. @throws what the function throws
    void resume() {
        auto* const before = std::exchange(running(), this);
        swap_caught();
#ifdef CAIRN_TEST_ASAN
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
#ifdef CAIRN_TEST_TSAN
        back_to_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(tsan_, 0);
#endif
        ::swapcontext(&caller_, &here_);
#ifdef CAIRN_TEST_ASAN
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
        swap_caught();
        running() = before;
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    bool ended() const noexcept { return ended_; }

    /// The one that runs now; null outside of all.
    static fiber* current() { return running(); }
    /// Returns to `resume`, and goes on with the next one.
    static void pause() { running()->leave(false); }

private:
    /// The exceptions that are being handled are a list of the thread's; here, each has its own.
    struct caught {
        void* exceptions = nullptr;
        unsigned int uncaught = 0;
    };
    void swap_caught() {
        std::swap(*reinterpret_cast<caught*>(abi::__cxa_get_globals()), caught_);
        heeded_ = cairn::detail::heeded_stop::switch_to(heeded_);
    }
    static fiber*& running() {
        static fiber* f = nullptr;
        return f;
    }
    static std::vector<stack>& spare() {
        static std::vector<stack> all;
        return all;
    }
    static stack take_stack() {
        if (spare().empty()) return stack(new std::byte[stack_bytes]);
        auto s = std::move(spare().back());
        spare().pop_back();
        return s;
    }
    static void enter() { running()->run(); }
    void run() {
        entered(nullptr);
        try {
            f_();
            f_ = nullptr;
        } catch (...) {
            failure_ = std::current_exception();
        }
        ended_ = true;
        leave(true);
    }
    void leave([[maybe_unused]] bool for_ever) {
        [[maybe_unused]] void* fake = nullptr;
#ifdef CAIRN_TEST_ASAN
        __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake, caller_stack_, caller_bytes_);
#endif
#ifdef CAIRN_TEST_TSAN
        __tsan_switch_to_fiber(back_to_, 0);
#endif
        ::swapcontext(&here_, &caller_);
        entered(fake);
    }
    void entered([[maybe_unused]] void* fake) {
#ifdef CAIRN_TEST_ASAN
        __sanitizer_finish_switch_fiber(fake, &caller_stack_, &caller_bytes_);
#endif
    }

    std::function<void()> f_;
    const std::stop_token* heeded_ = nullptr;
    stack stack_;
    ::ucontext_t here_{}, caller_{};
    caught caught_{};
    std::exception_ptr failure_{};
    bool ended_ = false;
#ifdef CAIRN_TEST_ASAN
    const void* caller_stack_ = nullptr;
    std::size_t caller_bytes_ = 0;
#endif
#ifdef CAIRN_TEST_TSAN
    void* tsan_ = nullptr;
    void* back_to_ = nullptr;
#endif
};

}  // namespace simulation

#endif
