// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_UPLOAD_POOL_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_UPLOAD_POOL_IPP

#include <cairn/object_store/detail/s3/upload_pool.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace cairn::detail::s3 {

CAIRN_DECL upload_pool::~upload_pool() {
    {
        std::lock_guard const lock(m_);
        ends_ = true;
    }
    job_came_.notify_all();
    threads_.clear();
}

CAIRN_DECL upload_pool::buffer upload_pool::take(std::size_t n) {
    buffer b;
    {
        std::unique_lock lock(m_);
        memory_came_.wait(lock, [&] { return sending_ == 0 || in_use_ + n <= budget_; });
        in_use_ += n;
        auto const fits = std::find_if(kept_.begin(), kept_.end(),
                                       [&](auto const& k) { return k.capacity_ >= n; });
        if (fits != kept_.end()) {
            b.memory_ = std::move(fits->memory_);
            b.capacity_ = fits->capacity_;
            kept_.erase(fits);
        }
    }
    b.pool_ = this;
    b.size_ = n;
    if (!b.memory_ && n != 0) {
        // Its pages are taken as they are written.
        b.memory_ = std::make_unique_for_overwrite<std::byte[]>(n);
        b.capacity_ = n;
    }
    return b;
}

CAIRN_DECL void upload_pool::give_back(buffer& b) noexcept {
    {
        std::lock_guard const lock(m_);
        in_use_ -= b.size_;
        if (b.sending_) --sending_;
        // No more than there are threads: small ones come from objects of one part.
        if (users_ != 0 && kept_.size() < most_ && b.capacity_ * most_ >= budget_) try {
                kept_.emplace_back();
                kept_.back().memory_ = std::move(b.memory_);
                kept_.back().capacity_ = b.capacity_;
            } catch (const std::bad_alloc&) {  // it is freed
            }
    }
    memory_came_.notify_all();
}

CAIRN_DECL void upload_pool::begin_sending(buffer& b) {
    std::lock_guard const lock(m_);
    sending_ += !b.sending_;
    b.sending_ = true;
}

CAIRN_DECL void upload_pool::change_users(int by) noexcept {
    std::vector<buffer> freed;
    std::lock_guard const lock(m_);
    users_ += by;
    if (users_ == 0) freed.swap(kept_);
}

CAIRN_DECL void upload_pool::run(std::function<void()> job) {
    std::unique_lock lock(m_);
    if (idle_ <= jobs_.size() && threads_.size() < most_) {
        threads_.emplace_back();
        try {
            threads_.back().start([this] { work(); });
        } catch (const std::exception&) {  // no more threads, or no memory for one
            threads_.pop_back();
        }
    }
    if (threads_.empty()) {
        lock.unlock();
        return job();
    }
    jobs_.push_back(std::move(job));
    lock.unlock();
    job_came_.notify_one();
}

CAIRN_DECL void upload_pool::work() noexcept {
    std::unique_lock lock(m_);
    for (;;) {
        ++idle_;
        job_came_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
        --idle_;
        if (jobs_.empty()) return;
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job();
        job = nullptr;
        lock.lock();
    }
}

}  // namespace cairn::detail::s3

#endif
