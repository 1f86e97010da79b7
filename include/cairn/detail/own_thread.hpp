// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_OWN_THREAD_HPP
#define CAIRN_DETAIL_OWN_THREAD_HPP

#include <cairn/detail/cxx20.hpp>

#include <thread>
#include <utility>

namespace cairn::detail {

/// A thread of a group or a pool, on which completions may run. The code that ends its owner joins
/// the thread, unless it runs on that thread itself: a completion may hold the last reference to
/// the owner.
class own_thread {
public:
    own_thread() = default;
    own_thread(own_thread&&) = delete;
    ~own_thread() { end(); }

    /// @throws std::system_error if no thread can be created
    template <class F>
    void start(F&& f) {
        thread_ = std::thread(std::forward<F>(f));
    }
    bool started() const noexcept { return thread_.joinable(); }
    bool is_current() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
    void end() noexcept {
        if (!thread_.joinable()) return;
        if (is_current())
            thread_.detach();
        else
            thread_.join();
    }

private:
    std::thread thread_{};
};

}  // namespace cairn::detail

#endif
