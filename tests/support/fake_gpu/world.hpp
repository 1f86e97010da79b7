// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_GPU_WORLD_HPP
#define CAIRN_TEST_SUPPORT_FAKE_GPU_WORLD_HPP

#include "support/fake_gpu/order.hpp"

#include <cairn/memory/cuda/api.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// CUDA's rules without a GPU: device memory that the host cannot touch, streams that work in order
/// and later, events, captures, a current device for each thread. What no correct program does is
/// noted in `broken_rules`.
namespace support {

namespace gpu {

enum capture_mode { not_capturing, global, this_thread, relaxed };

struct event {
    int device = 0;
    work_ptr at{};  ///< Empty: never recorded.
    bool captured = false;
    bool destroyed = false;
};

/// What CUDA keeps for each thread.
struct thread_state {
    int device = 0;
    capture_mode mode = global;
    friend bool operator==(const thread_state&, const thread_state&) = default;
};
inline thread_state& this_thread_state() {
    thread_local thread_state s;
    return s;
}

}  // namespace gpu

struct fake_cuda;

/// The GPUs of the process. Work runs at calls into the world, at moments that the seed decides.
/// One thread that does the same with the same seed sees the same.
class fake_gpu {
public:
    struct options {
        int devices = 1;
        std::uint64_t seed = 1;
        /// Bytes of host memory that can be pinned.
        std::uint64_t pinnable = std::numeric_limits<std::uint64_t>::max();
    };
    explicit fake_gpu(const options& o)
        : pinnable_(o.pinnable), random_(o.seed), lazy_(std::uint64_t{2} << o.seed % 4) {
        for (int d = 0; d < o.devices; ++d) defaults_.push_back(add_stream(d, true, false));
        failed_.resize(static_cast<std::size_t>(o.devices));
        current() = this;
    }
    explicit fake_gpu(std::uint64_t seed = 1) : fake_gpu(options{1, seed}) {}
    fake_gpu(fake_gpu&&) = delete;
    ~fake_gpu() {
        current() = nullptr;
        for (auto& [begin, a] : memory_) ::munmap(const_cast<std::byte*>(begin), a.mapped);
    }
    /// The world that `fake_cuda` calls.
    static fake_gpu*& current() {
        static fake_gpu* world = nullptr;
        return world;
    }

    // What a trainer does.

    std::byte* allocate(int device, std::size_t n) {
        guard const lock(m_);
        auto const mapped = (n + 4095) / 4096 * 4096 + 4096;
        auto* const at = static_cast<std::byte*>(
            ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        memory_[at] = {device, mapped, std::vector<std::byte>(n, std::byte{0xa5})};
        return at;
    }
    void release(std::byte* at) {
        guard const lock(m_);
        auto const a = memory_.find(at);
        if (auto const by = order_.touching(at, a->second.bytes.size()); !by.empty())
            broken_.push_back("memory is freed that is used by " + by);
        ::munmap(at, a->second.mapped);
        memory_.erase(a);
    }
    gpu::stream* new_stream(int device = 0, bool blocking = true) {
        guard const lock(m_);
        return add_stream(device, blocking, false);
    }
    /// A kernel. It touches what it says and nothing else; `run` may be empty, and gets at the
    /// memory by `bytes_of`.
    gpu::work_ptr launch(gpu::stream* s, std::string what, std::vector<gpu::access> accesses,
                         std::function<void()> run = {}, bool held = false) {
        guard const lock(m_);
        auto w = std::make_shared<gpu::work>();
        w->what = std::move(what);
        w->accesses = std::move(accesses);
        w->run = std::move(run);
        w->held = held;
        auto* const on = resolve(s);
        if (!on->capturing) enqueue(*on, w);
        return w;
    }
    /// A kernel that sets bytes.
    gpu::work_ptr fill(gpu::stream* s, std::byte* at, std::byte value, std::size_t n,
                       bool held = false) {
        return launch(
            s, "a kernel that writes", {{at, at + n, true}},
            [this, at, value, n] { std::memset(bytes_of(at, n), static_cast<int>(value), n); },
            held);
    }
    /// A held kernel may run now.
    void let_go(const gpu::work_ptr& w) {
        guard const lock(m_);
        w->held = false;
    }
    /// Until the stream has done all its work.
    /// @return False if something held keeps it from it.
    bool synchronize(gpu::stream* s) {
        guard const lock(m_);
        auto* const on = resolve(s);
        while (!on->todo.empty())
            if (!run_one(true)) return false;
        if (on->last) order_.observed(*on->last);
        return true;
    }
    bool synchronize() {
        guard const lock(m_);
        while (run_one(true)) {
        }
        return std::all_of(streams_.begin(), streams_.end(),
                           [](auto& s) { return s->todo.empty(); });
    }
    void begin_capture(gpu::stream* s, gpu::capture_mode mode) {
        guard const lock(m_);
        s->capturing = mode;
        s->capture_broken = false;
        capturing_thread_[s] = std::this_thread::get_id();
    }
    /// @return Whether nothing has invalidated it.
    bool end_capture(gpu::stream* s) {
        guard const lock(m_);
        s->capturing = gpu::not_capturing;
        return !s->capture_broken;
    }
    static void set_device(int d) { gpu::this_thread_state().device = d; }

    // What a test does.

    /// Device memory as it is now, whatever is still to run.
    std::vector<std::byte> read(const std::byte* at, std::size_t n) {
        guard const lock(m_);
        auto const* const p = bytes_of(at, n);
        return {p, p + n};
    }
    void write(std::byte* at, std::span<const std::byte> bytes) {
        guard const lock(m_);
        if (!bytes.empty()) std::memcpy(bytes_of(at, bytes.size()), bytes.data(), bytes.size());
    }
    /// For kernels: the memory behind a device's address.
    std::byte* bytes_of(const std::byte* at, std::size_t n, int device = -1) {
        auto a = memory_.upper_bound(at);
        if (a == memory_.begin()) return nullptr;
        --a;
        auto const offset = static_cast<std::size_t>(at - a->first);
        auto& bytes = a->second.bytes;
        if (offset > bytes.size() || n > bytes.size() - offset) return nullptr;
        if (device >= 0 && device != a->second.device) return nullptr;
        return bytes.data() + offset;
    }
    /// The `nth` call of the API from now fails, counted from 1; `after` it has had its effect.
    void fail_call(std::uint64_t nth, bool after = false) {
        guard const lock(m_);
        fail_at_ = calls_ + nth;
        fail_after_ = after;
    }
    std::uint64_t calls() const {
        guard const lock(m_);
        return calls_;
    }
    /// As after a fault in a kernel: whatever is asked of the device fails, and nothing runs.
    void fail_device(int d) {
        guard const lock(m_);
        failed_[static_cast<std::size_t>(d)] = true;
    }
    std::vector<std::string> broken_rules() const {
        guard const lock(m_);
        return broken_;
    }
    /// Streams, events and pinned ranges that were not given back.
    std::size_t in_use() const {
        guard const lock(m_);
        auto const streams = std::count_if(streams_.begin(), streams_.end(),
                                           [](auto& s) { return s->own && !s->destroyed; });
        auto const events =
            std::count_if(events_.begin(), events_.end(), [](auto& e) { return !e->destroyed; });
        return static_cast<std::size_t>(streams + events) + pinned_.size();
    }
    std::uint64_t pinned_bytes() const {
        guard const lock(m_);
        std::uint64_t n = 0;
        for (auto const& [at, size] : pinned_) n += size;
        return n;
    }
    /// Calls that copied rows, and how many rows there were.
    std::uint64_t copies() const {
        guard const lock(m_);
        return copies_;
    }

private:
    friend struct fake_cuda;
    using guard = std::lock_guard<std::mutex>;
    struct allocation {
        int device = 0;
        std::size_t mapped = 0;
        std::vector<std::byte> bytes{};
    };

    gpu::stream* add_stream(int device, bool blocking, bool own) {
        auto s = std::make_unique<gpu::stream>();
        s->number = streams_.size();
        s->device = device;
        s->blocking = blocking;
        s->own = own;
        streams_.push_back(std::move(s));
        return streams_.back().get();
    }
    gpu::stream* default_of(int device) { return defaults_[static_cast<std::size_t>(device)]; }
    /// A null handle is stream 0 of the thread's device.
    gpu::stream* resolve(gpu::stream* s) {
        return s != nullptr ? s : default_of(gpu::this_thread_state().device);
    }
    void enqueue(gpu::stream& s, const gpu::work_ptr& w) {
        auto* const zero = default_of(s.device);
        if (&s == zero) {
            for (auto& other : streams_)
                if (other->device == s.device && other->blocking && other->last)
                    w->after.push_back(other->last);
        } else if (s.blocking && zero->last) {
            w->after.push_back(zero->last);
        }
        if (auto const race = order_.enqueue(s, w); !race.empty()) broken_.push_back(race);
    }
    /// @param surely  Otherwise by chance.
    /// @return Whether something ran or might have.
    bool run_one(bool surely) {
        std::vector<gpu::stream*> ready;
        for (auto& s : streams_)
            if (!s->todo.empty() && s->todo.front()->ready() &&
                !failed_[static_cast<std::size_t>(s->device)])
                ready.push_back(s.get());
        if (ready.empty()) return false;
        if (!surely && random_() % lazy_ != 0) return true;
        auto& s = *ready[random_() % ready.size()];
        auto const w = s.todo.front();
        s.todo.pop_front();
        if (w->run) w->run();
        w->done = true;
        w->after.clear();
        return true;
    }

    mutable std::mutex m_{};
    std::uint64_t pinnable_;
    std::mt19937_64 random_;
    std::uint64_t lazy_;  ///< One call in so many runs something.
    gpu::schedule order_{};
    std::map<const std::byte*, allocation> memory_{};
    std::map<const std::byte*, std::size_t> pinned_{};
    std::vector<std::unique_ptr<gpu::stream>> streams_{};
    std::vector<gpu::stream*> defaults_{};
    std::vector<std::unique_ptr<gpu::event>> events_{};
    std::map<gpu::stream*, std::thread::id> capturing_thread_{};
    std::vector<bool> failed_{};
    std::vector<std::string> broken_{};
    std::uint64_t calls_ = 0, fail_at_ = 0, copies_ = 0;
    bool fail_after_ = false;
};

}  // namespace support

#endif
