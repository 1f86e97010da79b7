// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_ANY_MEMORY_SPACE_HPP
#define CAIRN_MEMORY_ANY_MEMORY_SPACE_HPP

#include <cairn/error.hpp>
#include <cairn/memory/concepts.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace cairn {

/// A queue of any memory space, as the library uses it. Unlike a @ref CopyQueue it may be used from
/// several threads at the same time: calls are serialised.
class any_copy_queue {
public:
    /// Numbers the points in the queue, from 1.
    using ticket = std::uint64_t;

    /// @param space  Must outlive the queue.
    template <CopyQueue Q>
    any_copy_queue(device_id d, Q q, std::shared_ptr<const void> space = nullptr)
        : device_(d), impl_(std::make_unique<model<Q>>(std::move(q), std::move(space))) {}

    device_id device() const noexcept { return device_; }
    void fence(std::span<const const_tensor_view> views) { impl_->fence(views); }
    void to_host(std::span<const pitched_copy> copies) { impl_->to_host(copies); }
    void to_device(std::span<const pitched_copy> copies) { impl_->to_device(copies); }
    /// The point after everything enqueued so far.
    ticket record() { return impl_->record(); }
    /// Whether everything before the point has completed. It never blocks: what is not known yet is
    /// not asked while another thread is in a call, and the answer is false.
    bool reached(ticket t) { return impl_->reached(t); }
    /// Whether `Stream` is the type of this queue's streams.
    template <class Stream>
    bool takes() const noexcept {
        return impl_->stream_type() == typeid(Stream);
    }
    /// See @ref CopyQueue.
    /// @throws error errc::invalid_argument when `Stream` is not the type of this queue's streams
    template <class Stream>
    void make_wait(const Stream& s) {
        impl_->make_wait(typeid(Stream), std::addressof(s));
    }

private:
    struct base {
        virtual ~base() = default;
        virtual void fence(std::span<const const_tensor_view>) = 0;
        virtual void to_host(std::span<const pitched_copy>) = 0;
        virtual void to_device(std::span<const pitched_copy>) = 0;
        virtual ticket record() = 0;
        virtual bool reached(ticket) = 0;
        virtual const std::type_info& stream_type() const noexcept = 0;
        virtual void make_wait(const std::type_info&, const void*) = 0;
    };
    template <CopyQueue Q>
    struct model final : base {
        model(Q q, std::shared_ptr<const void> space)
            : space_(std::move(space)), q_(std::move(q)) {}
        void fence(std::span<const const_tensor_view> views) override {
            std::lock_guard const lock(mutex_);
            q_.fence(views);
        }
        void to_host(std::span<const pitched_copy> copies) override {
            std::lock_guard const lock(mutex_);
            if (!copies.empty()) q_.to_host(copies);
        }
        void to_device(std::span<const pitched_copy> copies) override {
            std::lock_guard const lock(mutex_);
            if (!copies.empty()) q_.to_device(copies);
        }
        ticket record() override {
            std::lock_guard const lock(mutex_);
            events_.push_back(q_.record());
            return reached_ + events_.size();
        }
        bool reached(ticket t) override {
            if (t <= reached_) return true;
            std::unique_lock const lock(mutex_, std::try_to_lock);
            if (!lock.owns_lock()) return false;
            std::size_t n = 0;
            while (n != events_.size() && reached_ + n < t && q_.reached(events_[n])) ++n;
            events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(n));
            reached_ += n;
            return t <= reached_;
        }
        const std::type_info& stream_type() const noexcept override {
            return typeid(typename Q::stream);
        }
        void make_wait(const std::type_info& type, const void* s) override {
            if (type != stream_type())
                throw error(errc::invalid_argument,
                            {.expected = "a stream of the memory space that copies the state",
                             .found = "a stream of another type"});
            std::lock_guard const lock(mutex_);
            q_.make_wait(*static_cast<const typename Q::stream*>(s));
        }

        std::mutex mutex_{};
        std::shared_ptr<const void> space_;
        Q q_;
        std::atomic<ticket> reached_{0};           ///< Changed with the mutex.
        std::vector<typename Q::event> events_{};  ///< Those after it.
    };

    device_id device_;
    std::unique_ptr<base> impl_;
};

/// Any memory space, owned or the caller's. Copies refer to the same one.
class any_memory_space {
public:
    template <MemorySpace M>
    static any_memory_space own(M m) {
        return any_memory_space(std::make_shared<owning<M>>(std::move(m)));
    }
    /// @param m  Outlives all copies of the result and everything that was made with them.
    template <MemorySpace M>
    static any_memory_space refer(M& m) {
        return any_memory_space(std::make_shared<referring<M>>(m));
    }

    bool serves(device_id d) const { return impl_->serves(d); }
    void pin(std::span<std::byte> memory, device_id d) { impl_->pin(memory, d); }
    void unpin(std::span<std::byte> memory, device_id d) noexcept { impl_->unpin(memory, d); }
    /// The queue keeps an owned space alive.
    any_copy_queue open(device_id d) { return impl_->open(d, impl_); }
    /// The type of the space itself: memory that one object of a type has pinned is pinned for all
    /// of them.
    const std::type_info& type() const noexcept { return impl_->type(); }

private:
    struct base {
        virtual ~base() = default;
        virtual bool serves(device_id) const = 0;
        virtual void pin(std::span<std::byte>, device_id) = 0;
        virtual void unpin(std::span<std::byte>, device_id) noexcept = 0;
        virtual any_copy_queue open(device_id, std::shared_ptr<const void>) = 0;
        virtual const std::type_info& type() const noexcept = 0;
    };
    template <MemorySpace M>
    struct referring : base {
        explicit referring(M& m) : m_(std::addressof(m)) {}
        bool serves(device_id d) const override { return std::as_const(*m_).serves(d); }
        void pin(std::span<std::byte> b, device_id d) override { m_->pin(b, d); }
        void unpin(std::span<std::byte> b, device_id d) noexcept override { m_->unpin(b, d); }
        any_copy_queue open(device_id d, std::shared_ptr<const void> self) override {
            return any_copy_queue(d, m_->open(d), std::move(self));
        }
        const std::type_info& type() const noexcept override { return typeid(M); }

    protected:
        M* m_;
    };
    template <MemorySpace M>
    struct holder {
        M held;
    };
    template <MemorySpace M>
    struct owning final : holder<M>, referring<M> {
        explicit owning(M m) : holder<M>{std::move(m)}, referring<M>(this->held) {}
    };

    explicit any_memory_space(std::shared_ptr<base> impl) : impl_(std::move(impl)) {}

    std::shared_ptr<base> impl_;
};

}  // namespace cairn

#endif
