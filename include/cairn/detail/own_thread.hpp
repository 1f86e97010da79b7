// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_OWN_THREAD_HPP
#define CAIRN_DETAIL_OWN_THREAD_HPP

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/forks.hpp>

#include <new>
#include <thread>
#include <utility>

namespace cairn::detail {

/// A thread of a group or a pool, on which completions may run. The code that ends its owner joins
/// the thread, unless it runs on that thread itself: a completion may hold the last reference to
/// the owner. A forked child does not have the thread, and does not wait for it.
class own_thread {
public:
    own_thread() = default;
    own_thread(own_thread&&) = delete;
    ~own_thread() { end(); }

    /// @throws std::system_error if no thread can be created
    template <class F>
    void start(F&& f) {
        blocked_signals const blocked;
        thread_ = std::thread(std::forward<F>(f));
        home_ = {};
    }
    bool started() const noexcept { return thread_.joinable(); }
    bool is_current() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
    void end() noexcept {
        if (!thread_.joinable()) return;
        if (!home_.is_this())
            new (&thread_) std::thread();  // its handle may be that of a thread of the child's
        else if (is_current())
            thread_.detach();
        else
            thread_.join();
    }

private:
    std::thread thread_{};
    home_process home_{};
};

}  // namespace cairn::detail

#endif
