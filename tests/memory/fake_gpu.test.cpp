// SPDX-License-Identifier: Apache-2.0
// The fake GPU itself: it delays, refuses and reports what a GPU would not forgive.
#include "support/fake_gpu/cuda.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(fake_of_a_gpu)

using support::fake_cuda;
using support::fake_gpu;
using state = cairn::cuda_status::state;

namespace {

/// A program that calls CUDA itself, with a stream, pinned memory and a tensor.
struct program {
    explicit program(std::uint64_t seed = 1) : gpu(seed) {
        fake_cuda::enter(0, scope);
        fake_cuda::create(own);
        fake_cuda::create(event);
        fake_cuda::pin(host, sizeof host);
        user = gpu.new_stream();
        tensor = gpu.allocate(0, 1000);
    }
    ~program() { fake_cuda::leave(scope); }
    program(program&&) = delete;

    void to_host() { fake_cuda::to_host({tensor, host, 1000}, own); }
    void order_after_user() {
        fake_cuda::record(event, user);
        fake_cuda::wait(own, event);
    }
    void wait_for(fake_cuda::stream s) {
        fake_cuda::event e{};
        fake_cuda::create(e);
        fake_cuda::record(e, s);
        while (fake_cuda::query(e).is == state::not_ready) {
        }
        fake_cuda::destroy(e);
    }
    bool told(const std::string& what) const {
        auto const rules = gpu.broken_rules();
        return std::any_of(rules.begin(), rules.end(),
                           [&](auto& r) { return r.find(what) != std::string::npos; });
    }

    fake_gpu gpu;
    fake_cuda::scope scope{};
    fake_cuda::stream own{}, user{};
    fake_cuda::event event{};
    std::byte* tensor = nullptr;
    alignas(4096) std::byte host[4096]{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(work_is_done_later_and_in_order) {
    int late = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        program p(seed);
        p.gpu.fill(p.user, p.tensor, std::byte{1}, 1000);
        p.gpu.fill(p.user, p.tensor, std::byte{2}, 1000);
        p.order_after_user();
        p.to_host();
        late += p.host[0] != std::byte{2};
        p.wait_for(p.own);
        BOOST_TEST((p.host[0] == std::byte{2} && p.host[999] == std::byte{2}));
        BOOST_TEST(p.gpu.broken_rules().empty());
    }
    BOOST_TEST((late > 10 && late <= 50));
}

BOOST_AUTO_TEST_CASE(the_host_cannot_touch_device_memory) {
    program p;
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    BOOST_TEST(::write(ends[1], p.tensor, 1) == -1);  // EFAULT, where a load would be a signal
    BOOST_TEST(errno == EFAULT);
    BOOST_TEST(::write(ends[1], p.host, 1) == 1);
    ::close(ends[0]);
    ::close(ends[1]);
}

// Whatever the seed, so whether or not it happens to go well.
BOOST_AUTO_TEST_CASE(races_are_reported) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        {
            program p(seed);  // reads what a kernel still writes
            p.gpu.fill(p.user, p.tensor, std::byte{1}, 1000);
            p.to_host();
            BOOST_TEST(p.told("a copy to the host is not ordered after a kernel that writes"));
        }
        {
            program p(seed);  // the update comes too early
            p.to_host();
            p.gpu.fill(p.user, p.tensor, std::byte{1}, 1000);
            BOOST_TEST(p.told("a kernel that writes is not ordered after a copy to the host"));
        }
        {
            program p(seed);  // ordered by what the host has seen
            p.to_host();
            p.wait_for(p.own);
            p.gpu.fill(p.user, p.tensor, std::byte{1}, 1000);
            p.gpu.synchronize(p.user);
            p.to_host();
            BOOST_TEST(p.gpu.broken_rules().empty());
        }
        {
            program p(seed);  // a wait, but before the kernel
            p.order_after_user();
            p.gpu.fill(p.user, p.tensor, std::byte{1}, 1000);
            p.to_host();
            BOOST_TEST(p.told("not ordered"));
        }
        {
            program p(seed);  // reads do not conflict
            p.to_host();
            p.gpu.launch(p.user, "a kernel that reads", {{p.tensor, p.tensor + 1000, false}});
            BOOST_TEST(p.gpu.broken_rules().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(stream_zero_waits_for_blocking_streams_only) {
    program p;
    auto* const loner = p.gpu.new_stream(0, false);
    p.gpu.fill(p.user, p.tensor, std::byte{1}, 500);
    p.gpu.fill(nullptr, p.tensor, std::byte{2}, 500);
    p.gpu.fill(p.user, p.tensor, std::byte{3}, 500);
    BOOST_TEST(p.gpu.broken_rules().empty());
    p.gpu.fill(loner, p.tensor, std::byte{4}, 500);
    BOOST_TEST(p.told("not ordered"));
    BOOST_TEST(p.gpu.synchronize());
}

BOOST_AUTO_TEST_CASE(held_kernels_hold_up_what_is_behind_them) {
    program p;
    auto const kernel = p.gpu.fill(p.user, p.tensor, std::byte{9}, 1000, true);
    p.order_after_user();
    p.to_host();
    fake_cuda::record(p.event, p.own);
    for (int i = 0; i < 100; ++i) BOOST_TEST((fake_cuda::query(p.event).is == state::not_ready));
    BOOST_TEST(!p.gpu.synchronize(p.own));
    p.gpu.let_go(kernel);
    p.wait_for(p.own);
    BOOST_TEST((p.host[0] == std::byte{9}));
}

BOOST_AUTO_TEST_CASE(wrong_calls_are_refused_and_noted) {
    using body = std::function<cairn::cuda_status(program&)>;
    std::vector<std::pair<const char*, body>> const wrong{
        {"another device's stream",
         [](program& p) {
             support::gpu::event elsewhere{1};
             return fake_cuda::record(&elsewhere, p.own);
         }},
        {"not memory of the stream's device",
         [](program& p) {
             return fake_cuda::to_host({p.tensor, p.host, 1001}, p.own);
         }},
        {"not memory of the stream's device",
         [](program& p) {
             return fake_cuda::to_device({p.host, p.host + 100, 10}, p.own);
         }},
        {"a copy of nothing",
         [](program& p) {
             return fake_cuda::to_host({p.tensor, p.host, 0}, p.own);
         }},
        {"a pitch",
         [](program& p) {
             return fake_cuda::to_host({p.tensor, p.host, 9, 2, 8, 9}, p.own);
         }},
        {"destroyed twice",
         [](program& p) {
             fake_cuda::destroy(p.event);
             return fake_cuda::destroy(p.event);
         }},
        {"after its end",
         [](program& p) {
             fake_cuda::destroy(p.own);
             return fake_cuda::to_host({p.tensor, p.host, 10}, p.own);
         }},
        {"not pinned", [](program& p) { return fake_cuda::unpin(p.host + 1); }},
        {"used by a copy to the host",
         [](program& p) {
             p.to_host();
             auto const s = fake_cuda::unpin(p.host);
             return s.is == state::ok ? cairn::cuda_status{state::failed, {}} : s;
         }},
    };
    for (auto const& [rule, call] : wrong) {
        program p;
        BOOST_TEST((call(p).is == state::failed), rule);
        BOOST_TEST(p.told(rule), rule);
        p.gpu.synchronize();
    }
    program p;
    p.to_host();
    p.gpu.release(p.tensor);
    BOOST_TEST(p.told("freed"));
}

BOOST_AUTO_TEST_CASE(captures_are_invalidated_by_other_threads) {
    using namespace support::gpu;
    for (bool const exempt : {false, true}) {
        program p;
        fake_cuda::record(p.event, p.own);
        p.gpu.begin_capture(p.user, global);
        cairn::cuda_status asked;
        std::thread([&] {
            fake_cuda::scope scope;
            if (exempt) fake_cuda::enter(0, scope);
            asked = fake_cuda::query(p.event);
            fake_cuda::leave(scope);
        }).join();
        BOOST_TEST((asked.is == state::failed) == !exempt);
        BOOST_TEST(p.gpu.end_capture(p.user) == exempt);
        BOOST_TEST(p.told("invalidates a capture") == !exempt);
    }
    program p;
    p.gpu.begin_capture(p.user, this_thread);
    BOOST_TEST((fake_cuda::capturing(p.user).is == state::capturing));
    BOOST_TEST((fake_cuda::capturing(nullptr).is == state::capturing));
    BOOST_TEST((fake_cuda::capturing(p.own).is == state::ok));
    BOOST_TEST((fake_cuda::record(p.event, p.user).is == state::failed));
    BOOST_TEST((fake_cuda::query(p.event).is == state::failed));
    fake_cuda::event outside{};
    fake_cuda::create(outside);
    fake_cuda::record(outside, p.own);
    BOOST_TEST((fake_cuda::wait(p.user, outside).is == state::failed));
    BOOST_TEST(!p.gpu.end_capture(p.user));
}

BOOST_AUTO_TEST_CASE(faults_occur_on_demand) {
    program p;
    p.gpu.fail_call(2);
    fake_cuda::event e{};
    BOOST_TEST((fake_cuda::create(e).is == state::ok));
    BOOST_TEST((fake_cuda::record(e, p.own).text == "injected"));
    BOOST_TEST((fake_cuda::query(e).is == state::ok));  // never recorded
    p.gpu.fail_call(1, true);
    auto const before = p.gpu.copies();
    BOOST_TEST((fake_cuda::to_host({p.tensor, p.host, 10}, p.own).is == state::failed));
    BOOST_TEST(p.gpu.copies() == before + 1);
    p.gpu.fail_device(0);
    BOOST_TEST((fake_cuda::record(e, p.own).is == state::failed));

    fake_gpu small({1, 1, 4096});
    alignas(4096) static std::byte memory[8192];
    fake_cuda::scope scope;
    fake_cuda::enter(0, scope);
    BOOST_TEST((fake_cuda::pin(memory, 8192).is == state::failed));
    BOOST_TEST((fake_cuda::pin(memory, 4096).is == state::ok));
    BOOST_TEST((fake_cuda::pin(memory, 100).is == state::failed));
    BOOST_TEST((small.in_use() == 1u && small.pinned_bytes() == 4096u));
    fake_cuda::leave(scope);
}

BOOST_AUTO_TEST_SUITE_END()
