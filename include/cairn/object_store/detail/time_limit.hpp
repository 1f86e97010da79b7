// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_TIME_LIMIT_HPP
#define CAIRN_OBJECT_STORE_DETAIL_TIME_LIMIT_HPP

#include <cairn/detail/own_thread.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace cairn::detail {

/// While it lives, stores that wait for a network on this thread give up after a time.
class time_limit {
public:
    /// @throws std::system_error if no thread can be created
    explicit time_limit(std::chrono::milliseconds longest) : heeded_(late_.get_token()) {
        timer_.start([this, longest] {
            std::unique_lock lock(m_);
            if (!changed_.wait_for(lock, longest, [this] { return over_; })) late_.request_stop();
        });
    }
    time_limit(time_limit&&) = delete;
    ~time_limit() {
        {
            std::lock_guard const lock(m_);
            over_ = true;
        }
        changed_.notify_one();
        timer_.end();
    }

    bool has_passed() const noexcept { return late_.stop_requested(); }

private:
    std::stop_source late_{};
    std::mutex m_{};
    std::condition_variable changed_{};
    bool over_ = false;
    own_thread timer_{};
    heeded_stop heeded_;
};

}  // namespace cairn::detail

#endif
