// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_MEMORY_SPACE_HPP
#define CAIRN_TESTING_MEMORY_SPACE_HPP

#include <cairn/memory/concepts.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Checks the semantics of a MemorySpace, for models of your own. Needs no test framework.
namespace cairn::testing {

/// A memory space and how to use its device from outside.
template <MemorySpace M>
struct memory_under_test {
    M& space;
    device_id device;
    /// A stream of the user's: the one on which the space expects the tensors to be produced.
    typename M::queue::stream stream;
    std::function<std::byte*(std::size_t)> allocate;  ///< Device memory.
    std::function<void(std::byte*)> release;
    /// Enqueues a write of so many bytes of this value on `stream`. The later the write happens,
    /// the better the test.
    std::function<void(std::byte*, std::byte, std::size_t)> fill;
};

namespace detail {

/// Page-aligned host memory with bytes at both ends that nothing may touch; pinned if possible.
template <MemorySpace M>
class staging {
public:
    static constexpr std::size_t edge = 64;
    static constexpr std::byte untouched{0x5a};

    staging(M& space, device_id d, std::size_t bytes, bool pin)
        : space_(space), device_(d), bytes_(bytes), all_((bytes + 2 * edge + 4095) / 4096 * 4096),
          memory_(static_cast<std::byte*>(std::aligned_alloc(4096, all_))) {
        if (memory_ == nullptr) throw std::bad_alloc();
        std::fill_n(memory_, all_, untouched);
        if (!pin) return;
        try {
            space_.pin({memory_, all_}, device_);
            pinned_ = true;
        } catch (...) {  // allowed: the memory is then pageable
        }
    }
    staging(staging&&) = delete;
    ~staging() {
        if (std::uncaught_exceptions() != 0) {  // copies may still be under way
            kept().push_back(memory_);
            return;
        }
        if (pinned_) space_.unpin({memory_, all_}, device_);
        std::free(memory_);
    }
    std::byte* data() const noexcept { return memory_ + edge; }
    std::span<std::byte> bytes() const noexcept { return {data(), bytes_}; }
    bool edges_untouched() const {
        return std::all_of(memory_, memory_ + edge, [](auto b) { return b == untouched; }) &&
               std::all_of(memory_ + edge + bytes_, memory_ + all_,
                           [](auto b) { return b == untouched; });
    }

private:
    static std::vector<std::byte*>& kept() {
        static auto& until_the_process_ends = *new std::vector<std::byte*>;
        return until_the_process_ends;
    }

    M& space_;
    device_id device_;
    std::size_t bytes_, all_;
    std::byte* memory_;
    bool pinned_ = false;
};

template <MemorySpace M>
class memory_space_checks {
public:
    explicit memory_space_checks(memory_under_test<M> t) : t_(std::move(t)) {}

    void serves_its_device() {
        expect(std::as_const(t_.space).serves(t_.device),
               "serves() returns false for its own device");
    }
    void round_trip(bool pin) {
        for (std::size_t n :
             {std::size_t{1}, std::size_t{3}, std::size_t{4096}, (std::size_t{1} << 20) + 7}) {
            auto const device = allocate(n);
            staging<M> from(t_.space, t_.device, n, pin), to(t_.space, t_.device, n, pin);
            pattern(from.bytes(), n);
            auto q = t_.space.open(t_.device);
            fence(q, device.get(), n);
            to_device(q, {from.data(), device.get(), n});
            wait(q);
            to_host(q, {device.get(), to.data(), n});
            wait(q);
            expect(same(from.bytes(), to.bytes()),
                   "other bytes than those copied, of " + std::to_string(n));
            expect(to.edges_untouched(), "bytes written outside of a copy");
        }
    }
    /// Rows of 24 bytes out of and into a device array whose rows are 96 bytes apart.
    void pitched(bool pin) {
        constexpr std::size_t rows = 50, wide = 96, width = 24, host_pitch = 40;
        auto const device = allocate(rows * wide);
        staging<M> all(t_.space, t_.device, rows * wide, pin);
        staging<M> part(t_.space, t_.device, rows * host_pitch, pin);
        pattern(all.bytes(), 1);
        auto q = t_.space.open(t_.device);
        fence(q, device.get(), rows * wide);
        to_device(q, {all.data(), device.get(), rows * wide});
        wait(q);
        to_host(q, {device.get() + 8, part.data(), width, rows, wide, host_pitch});
        wait(q);
        for (std::size_t r = 0; r < rows; ++r) {
            auto const row = part.bytes().subspan(r * host_pitch, host_pitch);
            expect(same(row.first(width), all.bytes().subspan(r * wide + 8, width)),
                   "a pitched copy to the host has other bytes");
            expect(std::all_of(row.begin() + width, row.end(),
                               [&](auto b) { return b == staging<M>::untouched; }),
                   "a pitched copy to the host writes between its rows");
        }
        pattern(part.bytes(), 2);
        to_device(q, {part.data(), device.get() + 8, width, rows, host_pitch, wide});
        wait(q);
        staging<M> back(t_.space, t_.device, rows * wide, pin);
        to_host(q, {device.get(), back.data(), rows * wide});
        wait(q);
        for (std::size_t r = 0; r < rows; ++r) {
            auto const was = all.bytes().subspan(r * wide, wide);
            auto const is = back.bytes().subspan(r * wide, wide);
            expect(same(is.subspan(8, width), part.bytes().subspan(r * host_pitch, width)),
                   "a pitched copy to the device has other bytes");
            expect(same(is.first(8), was.first(8)) &&
                       same(is.subspan(8 + width), was.subspan(8 + width)),
                   "a pitched copy to the device writes between its rows");
        }
    }
    void fence_orders_the_producer_first(bool pin) {
        constexpr std::size_t n = 100'000;
        auto const device = allocate(n);
        staging<M> host(t_.space, t_.device, n, pin);
        auto q = t_.space.open(t_.device);
        for (int round = 1; round <= 10; ++round) {
            auto const value = static_cast<std::byte>(round);
            t_.fill(device.get(), value, n);
            fence(q, device.get(), n);
            to_host(q, {device.get(), host.data(), n});
            wait(q);
            expect(all_are(host.bytes(), value), "copied before the fence's work was done");
        }
        // As in a load: work enqueued before the fence is done before the copies write.
        t_.fill(device.get(), std::byte{99}, n);
        fence(q, device.get(), n);
        pattern(host.bytes(), 3);
        to_device(q, {host.data(), device.get(), n});
        wait(q);
        staging<M> back(t_.space, t_.device, n, pin);
        to_host(q, {device.get(), back.data(), n});
        wait(q);
        expect(same(host.bytes(), back.bytes()), "written before the fence's work was done");
    }
    void streams_wait_for_copies() {
        constexpr std::size_t n = 100'000;
        auto const device = allocate(n);
        staging<M> host(t_.space, t_.device, n, true);
        auto q = t_.space.open(t_.device);
        for (int round = 1; round <= 10; ++round) {
            auto const value = static_cast<std::byte>(round);
            t_.fill(device.get(), value, n);
            fence(q, device.get(), n);
            to_host(q, {device.get(), host.data(), n});
            q.make_wait(t_.stream);
            t_.fill(device.get(), std::byte{77}, n);
            wait(q);
            expect(all_are(host.bytes(), value),
                   "make_wait: the stream overwrote what was still to be copied");
        }
        fence(q, device.get(), n);
        to_host(q, {device.get(), host.data(), n});
        wait(q);
        expect(all_are(host.bytes(), std::byte{77}), "work behind make_wait was lost");
    }
    void events_are_reached_in_order() {
        auto const device = allocate(1000);
        staging<M> host(t_.space, t_.device, 1000, true);
        auto q = t_.space.open(t_.device);
        auto empty = q.record();
        wait(q, empty);
        fence(q, device.get(), 1000);
        to_device(q, {host.data(), device.get(), 1000});
        auto first = q.record();
        to_host(q, {device.get(), host.data(), 500});
        auto second = q.record();
        wait(q, second);
        expect(q.reached(first) && q.reached(empty) && q.reached(second),
               "an event is not reached although a later one is");
    }
    void queues_are_independent() {
        constexpr std::size_t n = 5000;
        auto const device = allocate(2 * n);
        staging<M> a(t_.space, t_.device, n, true), b(t_.space, t_.device, n, true);
        pattern(a.bytes(), 4);
        pattern(b.bytes(), 5);
        auto p = t_.space.open(t_.device), q = t_.space.open(t_.device);
        fence(p, device.get(), 2 * n);
        fence(q, device.get(), 2 * n);
        to_device(p, {a.data(), device.get(), n});
        to_device(q, {b.data(), device.get() + n, n});
        wait(q);
        wait(p);
        staging<M> both(t_.space, t_.device, 2 * n, true);
        {
            auto moved = std::move(p);
            const pitched_copy halves[] = {{device.get() + n, both.data() + n, n},
                                           {device.get(), both.data(), n}};
            moved.to_host(halves);
            wait(moved);
        }
        expect(same(both.bytes().first(n), a.bytes()) && same(both.bytes().subspan(n), b.bytes()),
               "two queues: other bytes than those copied");
    }
    void threads_may_differ() {
        constexpr std::size_t n = 5000;
        auto const device = allocate(n);
        staging<M> from(t_.space, t_.device, n, true), to(t_.space, t_.device, n, true);
        pattern(from.bytes(), 6);
        auto q = t_.space.open(t_.device);
        std::exception_ptr failure;
        auto const elsewhere = [&](auto f) {
            std::thread([&] {
                try {
                    f();
                } catch (...) {
                    failure = std::current_exception();
                }
            }).join();
            if (failure) std::rethrow_exception(failure);
        };
        fence(q, device.get(), n);
        elsewhere([&] { to_device(q, {from.data(), device.get(), n}); });
        elsewhere([&] { wait(q); });
        to_host(q, {device.get(), to.data(), n});
        elsewhere([&] { wait(q); });
        elsewhere([&] { [[maybe_unused]] auto const gone = std::move(q); });
        expect(same(from.bytes(), to.bytes()), "several threads: other bytes than those copied");
    }

private:
    using queue = typename M::queue;
    using event = typename queue::event;

    static bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    static bool all_are(std::span<const std::byte> a, std::byte value) {
        return std::all_of(a.begin(), a.end(), [&](auto b) { return b == value; });
    }
    static void pattern(std::span<std::byte> bytes, std::size_t seed) {
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::byte>(seed * 97 + i + i / 255);
    }
    auto allocate(std::size_t n) {
        auto const release = [this](std::byte* p) {
            if (std::uncaught_exceptions() == 0) t_.release(p);
        };
        return std::unique_ptr<std::byte, decltype(release)>(t_.allocate(n), release);
    }
    void fence(queue& q, std::byte* at, std::size_t n) {
        const const_tensor_view views[] = {
            {dtype::u8, {static_cast<std::int64_t>(n)}, at, t_.device}};
        q.fence(views);
    }
    static void to_host(queue& q, const pitched_copy& c) { q.to_host({&c, 1}); }
    static void to_device(queue& q, const pitched_copy& c) { q.to_device({&c, 1}); }
    static void wait(queue& q) {
        auto e = q.record();
        wait(q, e);
    }
    static void wait(queue& q, event& e) {
        using clock = std::chrono::steady_clock;
        auto const by = clock::now() + std::chrono::minutes(1);
        while (!q.reached(e)) {
            expect(clock::now() < by, "an event was not reached within a minute");
            std::this_thread::yield();
        }
    }

    memory_under_test<M> t_;
};

}  // namespace detail

/// Runs all checks.
/// @return Descriptions of the failures; empty if there are none.
template <MemorySpace M>
std::vector<std::string> memory_space_suite(const memory_under_test<M>& t) {
    std::vector<std::string> failures;
    detail::memory_space_checks<M> checks(t);
    auto const run = [&](const char* name, auto check) {
        detail::run_check(failures, name, check);
    };
    run("serves", [&] { checks.serves_its_device(); });
    run("round trip", [&] { checks.round_trip(true); });
    run("round trip of pageable memory", [&] { checks.round_trip(false); });
    run("pitched copies", [&] { checks.pitched(true); });
    run("pitched copies of pageable memory", [&] { checks.pitched(false); });
    run("fence", [&] { checks.fence_orders_the_producer_first(true); });
    run("fence, pageable memory", [&] { checks.fence_orders_the_producer_first(false); });
    run("make_wait", [&] { checks.streams_wait_for_copies(); });
    run("events", [&] { checks.events_are_reached_in_order(); });
    run("several queues", [&] { checks.queues_are_independent(); });
    run("several threads", [&] { checks.threads_may_differ(); });
    return failures;
}

}  // namespace cairn::testing

#endif
