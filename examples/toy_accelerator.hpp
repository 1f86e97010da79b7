// SPDX-License-Identifier: Apache-2.0
// Simulates the driver of an accelerator: memory that the CPU cannot access, streams that run work
// asynchronously and in order, events. Only for the example 12_own_accelerator.cpp.
#ifndef CAIRN_EXAMPLES_TOY_ACCELERATOR_HPP
#define CAIRN_EXAMPLES_TOY_ACCELERATOR_HPP

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace toy {

/// All device memory: addresses that fault on the CPU, and the memory that backs them.
class memory {
public:
    static memory& instance() {
        static memory m;
        return m;
    }
    std::byte* allocate(std::size_t n) {
        auto* const at = ::mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        std::lock_guard const lock(mutex_);
        blocks_[static_cast<std::byte*>(at)].resize(n);
        return static_cast<std::byte*>(at);
    }
    void release(std::byte* at) {
        std::lock_guard const lock(mutex_);
        ::munmap(at, blocks_.at(at).size());
        blocks_.erase(at);
    }
    /// For the device's own work: returns the memory that backs an address; a host address is
    /// returned unchanged.
    std::byte* resolve(const std::byte* at) {
        std::lock_guard const lock(mutex_);
        auto block = blocks_.upper_bound(const_cast<std::byte*>(at));
        if (block != blocks_.begin()) {
            --block;
            if (auto const offset = static_cast<std::size_t>(at - block->first);
                offset < block->second.size())
                return block->second.data() + offset;
        }
        return const_cast<std::byte*>(at);
    }

private:
    std::mutex mutex_{};
    std::map<std::byte*, std::vector<std::byte>> blocks_{};
};

/// A point in a stream.
class event {
public:
    bool reached() const { return reached_->load(); }

private:
    friend class stream;
    std::shared_ptr<std::atomic<bool>> reached_ = std::make_shared<std::atomic<bool>>(false);
};

/// Work that the device runs in order.
class stream {
public:
    stream() : worker_([this] { run(); }) {}
    stream(stream&&) = delete;
    ~stream() {
        enqueue({});
        worker_.join();
    }
    void copy(std::byte* to, const std::byte* from, std::size_t n) {
        enqueue([=] {
            auto& m = memory::instance();
            std::memcpy(m.resolve(to), m.resolve(from), n);
        });
    }
    void fill(std::byte* at, std::byte value, std::size_t n) {
        enqueue([=] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a slow device
            std::memset(memory::instance().resolve(at), static_cast<int>(value), n);
        });
    }
    event record() {
        event e;
        enqueue([flag = e.reached_] { flag->store(true); });
        return e;
    }
    void wait_for(const event& e) {
        enqueue([flag = e.reached_] {
            while (!flag->load()) std::this_thread::yield();
        });
    }

private:
    void enqueue(std::function<void()> work) {
        std::lock_guard const lock(mutex_);
        todo_.push_back(std::move(work));
        changed_.notify_one();
    }
    void run() {
        for (;;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return !todo_.empty(); });
            auto const work = std::move(todo_.front());
            todo_.pop_front();
            lock.unlock();
            if (!work) return;
            work();
        }
    }

    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::deque<std::function<void()>> todo_{};
    std::thread worker_;
};

}  // namespace toy

#endif
