// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_GPU_CUDA_HPP
#define CAIRN_TEST_SUPPORT_FAKE_GPU_CUDA_HPP

#include "support/fake_gpu/world.hpp"

#include <cairn/memory/cuda/basic_memory.hpp>

namespace support {

/// CUDA's API over the current `fake_gpu`; see `cairn::CudaApi`.
struct fake_cuda {
    using stream = gpu::stream*;
    using event = gpu::event*;
    using status = cairn::cuda_status;
    using state = status::state;
    struct scope {
        bool entered = false;
        gpu::thread_state before{};
    };

    static status enter(int device, scope& s) {
        return call(
            [&](fake_gpu& w) -> status {
                if (device < 0 || static_cast<std::size_t>(device) >= w.defaults_.size())
                    return {state::failed, "invalid device ordinal"};
                s = {true, gpu::this_thread_state()};
                gpu::this_thread_state() = {device, gpu::relaxed};
                return {};
            },
            device);
    }
    static void leave(scope& s) {
        if (s.entered) gpu::this_thread_state() = s.before;
    }
    static stream default_stream() { return nullptr; }
    static status device_of(stream s, int& out) {
        return call([&](fake_gpu& w) -> status {
            if (s != nullptr) out = s->device;
            return w.failed_[static_cast<std::size_t>(out)] ? gone() : status{};
        });
    }
    static status capturing(stream s) {
        return call([&](fake_gpu& w) -> status {
            auto const* const on = w.resolve(s);
            bool captures = on->capturing != gpu::not_capturing;
            if (on == w.default_of(on->device))  // it would wait for all of these
                for (auto const& other : w.streams_)
                    captures = captures || (other->device == on->device && other->blocking &&
                                            other->capturing != gpu::not_capturing);
            return captures ? status{state::capturing, {}} : status{};
        });
    }
    static status create(stream& s) {
        return call([&](fake_gpu& w) -> status {
            if (auto const e = unsafe(w); e.is != state::ok) return e;
            s = w.add_stream(gpu::this_thread_state().device, false, true);
            return {};
        });
    }
    static status destroy(stream s) {
        return call([&](fake_gpu& w) -> status {
            if (s->destroyed) return broken(w, "a stream is destroyed twice");
            s->destroyed = true;
            return {};
        });
    }
    static status create(event& e) {
        return call([&](fake_gpu& w) -> status {
            if (auto const u = unsafe(w); u.is != state::ok) return u;
            w.events_.push_back(std::make_unique<gpu::event>());
            e = w.events_.back().get();
            e->device = gpu::this_thread_state().device;
            return {};
        });
    }
    static status destroy(event e) {
        return call([&](fake_gpu& w) -> status {
            if (e->destroyed) return broken(w, "an event is destroyed twice");
            e->destroyed = true;
            return {};
        });
    }
    static status record(event e, stream s) {
        return call([&](fake_gpu& w) -> status {
            auto* const on = w.resolve(s);
            if (e->destroyed || on->destroyed) return broken(w, "a handle is used after its end");
            if (e->device != on->device)
                return broken(w, "an event is recorded in another device's stream");
            if (on->capturing != gpu::not_capturing) {
                e->captured = true;
                return broken(w, "an event is recorded in a stream that is capturing");
            }
            auto mark = std::make_shared<gpu::work>();
            mark->what = "an event";
            w.enqueue(*on, mark);
            e->at = std::move(mark);
            return {};
        });
    }
    static status query(event e) {
        return call([&](fake_gpu& w) -> status {
            if (e->destroyed) return broken(w, "a handle is used after its end");
            if (e->captured) return broken(w, "an event of a capture is queried");
            if (auto const u = unsafe(w); u.is != state::ok) return u;
            if (!e->at) return {};
            if (!e->at->done) return {state::not_ready, {}};
            w.order_.observed(*e->at);
            return {};
        });
    }
    static status wait(stream s, event e) {
        return call([&](fake_gpu& w) -> status {
            auto* const on = w.resolve(s);
            if (e->destroyed || on->destroyed) return broken(w, "a handle is used after its end");
            if (on->capturing != gpu::not_capturing) {
                on->capture_broken = true;
                return broken(w, "a stream that is capturing waits for what is not captured");
            }
            if (!e->at) return {};
            auto wait = std::make_shared<gpu::work>();
            wait->what = "a wait";
            wait->after.push_back(e->at);
            w.enqueue(*on, wait);
            return {};
        });
    }
    static status to_host(const cairn::pitched_copy& c, stream s) { return copy(c, s, false); }
    static status to_device(const cairn::pitched_copy& c, stream s) { return copy(c, s, true); }
    static status pin(std::byte* p, std::size_t n) {
        return call([&](fake_gpu& w) -> status {
            if (auto const u = unsafe(w); u.is != state::ok) return u;
            for (auto const& [at, size] : w.pinned_)
                if (p < at + size && at < p + n)
                    return {state::failed, "part or all of the memory is pinned already"};
            std::uint64_t all = n;
            for (auto const& [at, size] : w.pinned_) all += size;
            if (all > w.pinnable_) return {state::failed, "out of memory"};
            w.pinned_[p] = n;
            return {};
        });
    }
    static status unpin(std::byte* p) {
        return call([&](fake_gpu& w) -> status {
            if (auto const u = unsafe(w); u.is != state::ok) return u;
            auto const at = w.pinned_.find(p);
            if (at == w.pinned_.end()) return broken(w, "memory is unpinned that is not pinned");
            if (auto const by = w.order_.touching(p, at->second); !by.empty())
                w.broken_.push_back("memory is unpinned that is used by " + by);
            w.order_.drop(p, at->second);
            w.pinned_.erase(at);
            return {};
        });
    }

private:
    static status gone() { return {state::failed, "unspecified launch failure"}; }
    static status broken(fake_gpu& w, const char* rule) {
        w.broken_.push_back(rule);
        return {state::failed, std::string("invalid: ") + rule};
    }
    template <class F>
    static status call(F f, int device = gpu::this_thread_state().device) {
        auto& w = *fake_gpu::current();
        fake_gpu::guard const lock(w.m_);
        bool const fails = ++w.calls_ == w.fail_at_;
        if (fails && !w.fail_after_) return {state::failed, "injected"};
        w.run_one(false);
        auto const here = static_cast<std::size_t>(device);
        if (here < w.failed_.size() && w.failed_[here]) return gone();
        auto s = f(w);
        return fails ? status{state::failed, "injected afterwards"} : s;
    }
    /// What CUDA does not allow a thread during captures, and what a capture does not survive.
    static status unsafe(fake_gpu& w) {
        auto const mode = gpu::this_thread_state().mode;
        if (mode == gpu::relaxed) return {};
        bool hit = false;
        for (auto& s : w.streams_) {
            if (s->capturing == gpu::not_capturing || s->capturing == gpu::relaxed) continue;
            bool const mine = w.capturing_thread_[s.get()] == std::this_thread::get_id();
            if (!mine && (mode != gpu::global || s->capturing != gpu::global)) continue;
            s->capture_broken = hit = true;
        }
        return hit ? broken(w, "a call invalidates a capture") : status{};
    }
    static std::size_t reach(std::size_t width, std::size_t rows, std::size_t pitch) {
        return (rows - 1) * pitch + width;
    }
    static status copy(const cairn::pitched_copy& c, stream s, bool to_device) {
        return call([&](fake_gpu& w) -> status {
            auto* const on = w.resolve(s);
            if (on->destroyed) return broken(w, "a handle is used after its end");
            if (c.width == 0 || c.rows == 0) return broken(w, "a copy of nothing");
            if (c.rows > 1 && (std::min(c.from_pitch, c.to_pitch) < c.width ||
                               std::max(c.from_pitch, c.to_pitch) > cairn::largest_pitch))
                return broken(w, "a pitch that CUDA does not take");
            auto const from = reach(c.width, c.rows, c.rows > 1 ? c.from_pitch : 0);
            auto const to = reach(c.width, c.rows, c.rows > 1 ? c.to_pitch : 0);
            auto const there = to_device ? to : from, here = to_device ? from : to;
            auto const* const device_side = to_device ? c.to : c.from;
            auto const* const host_side = to_device ? c.from : c.to;
            if (w.bytes_of(device_side, there, on->device) == nullptr)
                return broken(w, "a copy of what is not memory of the stream's device");
            ++w.copies_;
            auto const work = std::make_shared<gpu::work>();
            work->what = to_device ? "a copy to the device" : "a copy to the host";
            work->accesses = {{c.from, c.from + from, false}, {c.to, c.to + to, true}};
            work->run = [&w, c, to_device, there, device = on->device] {
                auto* const bytes = w.bytes_of(to_device ? c.to : c.from, there, device);
                if (bytes == nullptr) return (void)broken(w, "a copy of memory that was freed");
                for (std::size_t r = 0; r < c.rows; ++r)
                    std::memcpy(to_device ? bytes + r * c.to_pitch : c.to + r * c.to_pitch,
                                to_device ? c.from + r * c.from_pitch : bytes + r * c.from_pitch,
                                c.width);
            };
            w.enqueue(*on, work);
            auto const pinned = std::any_of(w.pinned_.begin(), w.pinned_.end(), [&](auto& p) {
                return p.first <= host_side && host_side + here <= p.first + p.second;
            });
            if (pinned) return {};
            while (!work->done)  // pageable memory: at once
                if (!w.run_one(true)) return broken(w, "a copy of pageable memory never ends");
            return {};
        });
    }
};
static_assert(cairn::CudaApi<fake_cuda>);

using fake_cuda_memory = cairn::basic_cuda_memory<fake_cuda>;
static_assert(cairn::MemorySpace<fake_cuda_memory>);

/// A tensor's `device` on the fake's device `d`.
inline cairn::device_id on_gpu(int d = 0) {
    return {cairn::memory_kind::cuda, d};
}

}  // namespace support

#endif
