// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_JOB_POOL_HPP
#define CAIRN_STORAGE_JOB_POOL_HPP

#include <cairn/detail/context_gate.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace cairn::detail {

/// Where a writer or reader runs its jobs, each of which handles a file or a part of one and waits
/// for no other job: threads of its own, made at first use, or the caller's executor.
class job_pool {
public:
    /// @param threads  At least one is made.
    explicit job_pool(int threads, boost::asio::any_io_executor on = {})
        : size_(static_cast<std::size_t>(std::max(1, threads))),
          on_(on ? until_context_ends(std::move(on)) : std::move(on)) {}

    /// Has no effect once threads have been made.
    void set_size(int threads) { size_ = static_cast<std::size_t>(std::max(1, threads)); }
    /// How many jobs of one file are of use: 1 on an executor, which is the program's to share.
    std::size_t jobs_per_file() const noexcept { return on_ ? 1 : size_; }

    template <class F>
    void post(F f) {
        if (on_) return boost::asio::post(on_, std::move(f));
        if (!threads_) threads_ = std::make_unique<boost::asio::thread_pool>(size_);
        boost::asio::post(*threads_, std::move(f));
    }

private:
    std::size_t size_;
    boost::asio::any_io_executor on_;
    std::unique_ptr<boost::asio::thread_pool> threads_{};
};

}  // namespace cairn::detail

#endif
