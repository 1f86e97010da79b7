// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_CUDA_HPP
#define CAIRN_TEST_SUPPORT_FAKE_CUDA_HPP

#include <cairn/comm/nccl/api.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// CUDA's rules without a GPU: memory that the host cannot reach, streams that work in order and
/// later, events, a current device for each thread. What breaks a rule is noted, and is an error.
namespace support {

/// An address on a device: nothing that a host could follow.
struct device_address {
    int device = -1;
    std::uint64_t at = 0;
    friend device_address operator+(device_address a, std::size_t n) {
        a.at += n;
        return a;
    }
};

class fake_device {
public:
    struct stream {
        std::deque<std::function<void()>> todo{};
        bool busy = false;
        bool closing = false;
        std::thread thread{};
    };
    struct event {
        int pending = 0;  ///< Records that the stream has not come to.
    };

    explicit fake_device(int number) : number_(number) {}
    fake_device(fake_device&&) = delete;
    /// @pre What streams are stuck in was ended.
    ~fake_device() {
        {
            std::lock_guard const lock(m_);
            for (auto& s : streams_) s->closing = true;
            changed_.notify_all();
        }
        for (auto& s : streams_) s->thread.join();
    }

    /// What no correct program does, in words.
    std::vector<std::string> broken_rules() const {
        std::lock_guard const lock(m_);
        return broken_;
    }
    /// Allocations and streams that nobody gave back.
    std::size_t in_use() const {
        std::lock_guard const lock(m_);
        auto const open = std::count_if(streams_.begin(), streams_.end(),
                                        [](auto const& s) { return !s->closing; });
        return memory_.size() + pinned_.size() + static_cast<std::size_t>(open);
    }
    void broke(const std::string& rule) {
        std::lock_guard const lock(m_);
        broken_.push_back(rule);
    }

    stream* create_stream() {
        std::lock_guard const lock(m_);
        streams_.push_back(std::make_unique<stream>());
        auto* const s = streams_.back().get();
        s->thread = std::thread([this, s] { run(*s); });
        return s;
    }
    /// As in CUDA: comes back at once, the stream ends when it has done its work.
    void destroy_stream(stream* s) {
        std::lock_guard const lock(m_);
        s->closing = true;
        changed_.notify_all();
    }
    bool enqueue(stream* s, std::function<void()> f) {
        std::lock_guard const lock(m_);
        auto const mine = std::any_of(streams_.begin(), streams_.end(),
                                      [&](auto const& p) { return p.get() == s; });
        if (!mine || s->closing) {
            broken_.push_back("work for a stream that is not open on this device");
            return false;
        }
        s->todo.push_back(std::move(f));
        changed_.notify_all();
        return true;
    }

    event* create_event() {
        std::lock_guard const lock(m_);
        events_.push_back(std::make_unique<event>());
        return events_.back().get();
    }
    bool record(event* e, stream* s) {
        {
            std::lock_guard const lock(m_);
            ++e->pending;
        }
        return enqueue(s, [this, e] {
            std::lock_guard const lock(m_);
            --e->pending;
        });
    }
    bool reached(const event* e) const {
        std::lock_guard const lock(m_);
        return e->pending == 0;
    }

    device_address allocate(std::size_t n) {
        std::lock_guard const lock(m_);
        auto const at = next_;
        next_ += (n + 4095) / 4096 * 4096 + 4096;
        memory_[at].assign(n, std::byte{0xa5});  // nobody may count on zeros
        return {number_, at};
    }
    /// As `cudaFree`: waits for all that was asked of the device.
    bool release(device_address a) {
        std::unique_lock lock(m_);
        changed_.wait(lock, [this] {
            return std::all_of(streams_.begin(), streams_.end(),
                               [](auto const& s) { return s->todo.empty() && !s->busy; });
        });
        return a.device == number_ && memory_.erase(a.at) == 1;
    }
    std::byte* allocate_pinned(std::size_t n) {
        std::lock_guard const lock(m_);
        auto p = std::make_unique<std::byte[]>(n);
        auto* const at = p.get();
        pinned_[at] = {std::move(p), n};
        return at;
    }
    bool release_pinned(std::byte* p) {
        std::lock_guard const lock(m_);
        return pinned_.erase(p) == 1;
    }

    /// Runs `f(bytes)` on `n` bytes of the device; for work of a stream only.
    template <class F>
    void with(device_address a, std::size_t n, F f) {
        std::lock_guard const lock(m_);
        if (auto* const p = find(a, n))
            f(p);
        else
            broken_.push_back("an address outside of the device's memory");
    }
    void copy(std::byte* host, device_address a, std::size_t n, bool to_device) {
        with(a, n, [&](std::byte* there) {
            if (!is_pinned(host, n)) return broken_.push_back("a copy with memory not pinned");
            if (to_device)
                std::memcpy(there, host, n);
            else
                std::memcpy(host, there, n);
        });
    }

private:
    void run(stream& s) {
        std::unique_lock lock(m_);
        for (std::uint32_t turn = 1;; ++turn) {
            changed_.wait(lock, [&] { return s.closing || !s.todo.empty(); });
            if (s.todo.empty()) return;
            auto const f = std::move(s.todo.front());
            s.todo.pop_front();
            s.busy = true;
            lock.unlock();
            if (turn % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(turn % 90));
            f();
            lock.lock();
            s.busy = false;
            changed_.notify_all();
        }
    }
    std::byte* find(device_address a, std::size_t n) {
        if (a.device != number_) return nullptr;
        auto it = memory_.upper_bound(a.at);
        if (it == memory_.begin()) return nullptr;
        --it;
        auto const offset = a.at - it->first;
        return offset + n <= it->second.size() ? it->second.data() + offset : nullptr;
    }
    bool is_pinned(const std::byte* p, std::size_t n) const {
        return std::any_of(pinned_.begin(), pinned_.end(), [&](auto const& a) {
            return p >= a.first && p + n <= a.first + a.second.second;
        });
    }

    int number_;
    mutable std::mutex m_{};
    std::condition_variable changed_{};
    std::vector<std::unique_ptr<stream>> streams_{};
    std::vector<std::unique_ptr<event>> events_{};
    std::map<std::uint64_t, std::vector<std::byte>> memory_{};
    std::map<std::byte*, std::pair<std::unique_ptr<std::byte[]>, std::size_t>> pinned_{};
    std::uint64_t next_ = 0x7f0000000000;
    std::vector<std::string> broken_{};
};

/// The devices of the process, and each thread's current one.
class fake_devices {
public:
    static fake_devices& all() {
        static fake_devices instance;
        return instance;
    }
    static int& current() {
        thread_local int number = -1;
        return number;
    }
    int add() {
        std::lock_guard const lock(m_);
        auto const number = next_++;
        devices_[number] = std::make_unique<fake_device>(number);
        return number;
    }
    void remove(int number) {
        std::unique_ptr<fake_device> gone;
        std::lock_guard const lock(m_);
        gone = std::move(devices_.at(number));
        devices_.erase(number);
    }
    /// nullptr: no such device, as without `cudaSetDevice` here.
    fake_device* find(int number) {
        std::lock_guard const lock(m_);
        auto const it = devices_.find(number);
        return it == devices_.end() ? nullptr : it->second.get();
    }

private:
    std::mutex m_{};
    std::map<int, std::unique_ptr<fake_device>> devices_{};
    int next_ = 0;
};

}  // namespace support

#endif
