// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_POOL_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_POOL_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/own_thread.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail::s3 {

/// Memory for the parts of objects, and the threads that send them.
///
/// Thread-safe. Destroyed when there are no jobs, and not in a forked child.
class upload_pool {
public:
    /// @param budget  Bytes of memory. More is taken only while all of it is in parts that wait for
    ///                bytes, which may come from the thread that asks for more.
    upload_pool(std::size_t threads, std::uint64_t budget) : most_(threads), budget_(budget) {}
    upload_pool(upload_pool&&) = delete;
    CAIRN_DECL ~upload_pool();

    /// Memory of a pool, which goes back to it.
    class buffer {
    public:
        buffer() = default;
        buffer(buffer&& o) noexcept { swap(o); }
        buffer& operator=(buffer&& o) noexcept {
            swap(o);
            return *this;
        }
        ~buffer() {
            if (pool_ != nullptr) pool_->give_back(*this);
        }
        std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }
        /// It is complete: others may wait for it.
        void is_sent_soon() { pool_->begin_sending(*this); }

    private:
        friend upload_pool;
        void swap(buffer& o) noexcept {
            std::swap(pool_, o.pool_);
            std::swap(memory_, o.memory_);
            std::swap(size_, o.size_);
            std::swap(capacity_, o.capacity_);
            std::swap(sending_, o.sending_);
        }

        upload_pool* pool_ = nullptr;
        std::unique_ptr<std::byte[]> memory_{};
        std::size_t size_ = 0, capacity_ = 0;
        bool sending_ = false;
    };

    /// Waits while there is no memory left and some is on its way back.
    CAIRN_DECL buffer take(std::size_t n);
    /// Calls `job` on a thread of the pool, or on this one if there can be none.
    /// @param job  Does not throw.
    CAIRN_DECL void run(std::function<void()> job);

    /// While one lives, memory that comes back is kept for the next part.
    class user {
    public:
        explicit user(upload_pool& p) : pool_(p) { pool_.change_users(1); }
        user(user&&) = delete;
        ~user() { pool_.change_users(-1); }

    private:
        upload_pool& pool_;
    };

private:
    CAIRN_DECL void give_back(buffer& b) noexcept;
    CAIRN_DECL void begin_sending(buffer& b);
    CAIRN_DECL void change_users(int by) noexcept;
    CAIRN_DECL void work() noexcept;

    std::size_t most_;
    std::uint64_t budget_;
    std::mutex m_{};
    std::condition_variable memory_came_{}, job_came_{};
    std::uint64_t in_use_ = 0;
    std::size_t sending_ = 0;  ///< Buffers.
    int users_ = 0;
    std::vector<buffer> kept_{};
    std::deque<std::function<void()>> jobs_{};
    std::size_t idle_ = 0;  ///< Threads.
    bool ends_ = false;
    std::list<own_thread> threads_{};
};

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/upload_pool.ipp>
#endif

#endif
