// SPDX-License-Identifier: Apache-2.0
// How cairn lives beside a trainer's own use of CUDA: streams, captures, threads, failures.
#include <cairn/memory/cuda/basic_memory.hpp>

#include "support/fake_gpu/checks.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/memory_spaces.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(cuda_rules)

namespace {

using namespace cairn;
using support::fake_cuda;
using support::fake_cuda_memory;
using support::fake_gpu;
using support::on_gpu;
using support::gpu::this_thread_state;

}  // namespace

BOOST_AUTO_TEST_CASE(one_stream_of_another_device_is_waited_for) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        fake_gpu gpu(fake_gpu::options{2, seed});
        auto* const user = gpu.new_stream(0);
        auto* const at = gpu.allocate(1, 100);
        fake_cuda_memory space(user);
        {
            auto q = any_memory_space::refer(space).open(on_gpu(1));
            gpu.fill(user, at, std::byte{8}, 100);  // a peer's kernel
            auto const v = support::bytes_at(at, 100, 1);
            q.fence({&v, 1});
            std::vector<std::byte> host(100);
            const pitched_copy c[] = {{at, host.data(), 100}};
            q.to_host(c);
            support::wait(q);
            BOOST_TEST((host == std::vector<std::byte>(100, std::byte{8})));
        }
        support::check_clean(gpu);
    }
}

BOOST_AUTO_TEST_CASE(default_streams_are_the_device_s_own) {
    fake_gpu gpu(fake_gpu::options{2, 5});
    auto* const at = gpu.allocate(1, 100);
    fake_cuda_memory space;
    {
        auto q = any_memory_space::refer(space).open(on_gpu(1));
        gpu.fill(gpu.new_stream(1), at, std::byte{6}, 100);  // stream 0 waits for it
        auto const v = support::bytes_at(at, 100, 1);
        q.fence({&v, 1});
        std::vector<std::byte> host(100);
        const pitched_copy c[] = {{at, host.data(), 100}};
        q.to_host(c);
        support::wait(q);
        BOOST_TEST((host[99] == std::byte{6}));
        fake_gpu::set_device(1);
        q.make_wait(fake_cuda::stream{});
        gpu.fill(nullptr, at, std::byte{7}, 100);
        fake_gpu::set_device(0);
    }
    gpu.synchronize();
    support::check_clean(gpu);
}

BOOST_AUTO_TEST_CASE(a_late_producer_holds_up_the_copy_and_nothing_else) {
    fake_gpu gpu(9);
    auto* const user = gpu.new_stream();
    auto* const at = gpu.allocate(0, 100);
    fake_cuda_memory space(user);
    {
        staging_arena staging;
        staging.pin_for(any_memory_space::refer(space), on_gpu());
        auto const block = *staging.try_take(100);
        BOOST_TEST(block.pinned());
        auto q = any_memory_space::refer(space).open(on_gpu());
        auto const kernel = gpu.fill(user, at, std::byte{3}, 100, true);
        auto const v = support::bytes_at(at, 100);
        q.fence({&v, 1});
        const pitched_copy c[] = {{at, block.bytes().data(), 100}};
        q.to_host(c);
        auto const t = q.record();
        for (int i = 0; i < 200; ++i) BOOST_TEST(!q.reached(t));
        gpu.let_go(kernel);
        while (!q.reached(t)) {
        }
        BOOST_TEST((block.bytes()[50] == std::byte{3}));
        q.make_wait(user);
        gpu.fill(user, at, std::byte{4}, 100);
    }
    gpu.synchronize();
    support::check_clean(gpu);
}

BOOST_AUTO_TEST_CASE(what_cuda_keeps_for_a_thread_stays_as_it_was) {
    fake_gpu gpu(fake_gpu::options{3, 2});
    auto* const user = gpu.new_stream(2);
    auto* const at = gpu.allocate(2, 100);
    auto const check = [&] {
        fake_gpu::set_device(1);
        auto const before = this_thread_state();
        fake_cuda_memory space(user);
        auto const same = [&](const char* what) {
            BOOST_TEST((this_thread_state() == before), what);
        };
        {
            auto const any = any_memory_space::refer(space);
            staging_arena staging;
            staging.pin_for(any, on_gpu(2));
            auto const block = *staging.try_take(100);
            same("pin");
            auto q = any_memory_space(any).open(on_gpu(2));
            same("open");
            auto const v = support::bytes_at(at, 100, 2);
            q.fence({&v, 1});
            same("fence");
            const pitched_copy out[] = {{at, block.bytes().data(), 100}};
            const pitched_copy in[] = {{block.bytes().data(), at, 100}};
            q.to_host(out);
            same("to_host");
            q.to_device(in);
            same("to_device");
            auto const t = q.record();
            same("record");
            while (!q.reached(t)) {
            }
            same("reached");
            q.make_wait(user);
            same("make_wait");
            // Failures too, before and after their effect.
            for (int after = 0; after < 2; ++after)
                for (std::uint64_t n = 1; n <= 4; ++n) {
                    gpu.fail_call(n, after != 0);
                    try {
                        q.fence({&v, 1});
                        support::wait(q);
                    } catch (const error&) {
                    }
                    same("a failure");
                }
        }
        same("the end");
        fake_gpu::set_device(0);
    };
    check();
    std::thread(check).join();
    for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule);
}

BOOST_AUTO_TEST_CASE(captures_of_others_go_on_and_those_of_the_producer_are_refused) {
    using namespace support::gpu;
    for (auto const mode : {global, this_thread, relaxed}) {
        fake_gpu gpu(4);
        auto *const user = gpu.new_stream(), *const other = gpu.new_stream(0, false);
        auto* const at = gpu.allocate(0, 100);
        fake_cuda_memory space(user);
        {
            auto any = any_memory_space::refer(space);
            auto q = any.open(on_gpu());
            auto const v = support::bytes_at(at, 100);
            q.fence({&v, 1});
            std::vector<std::byte> host(100);
            const pitched_copy c[] = {{at, host.data(), 100}};

            // Somebody else's: nothing that cairn does is in its way.
            gpu.begin_capture(other, mode);
            auto const everything = [&] {
                q.to_host(c);
                support::wait(q);
                q.fence({&v, 1});
                q.make_wait(user);
                auto second = any.open(on_gpu());
                staging_arena staging;
                staging.pin_for(any, on_gpu());
                staging.reserve(100);
                BOOST_TEST(staging.stats().bytes_pinned > 0u);
            };
            everything();
            std::thread(everything).join();
            BOOST_TEST(gpu.end_capture(other));
            support::check_clean(gpu, 1);

            // The producer's, or that of the stream that is to wait: refused, and not invalidated.
            gpu.begin_capture(user, mode);
            BOOST_CHECK_EXCEPTION(q.fence({&v, 1}), error, support::is(errc::invalid_argument));
            BOOST_CHECK_EXCEPTION(q.make_wait(user), error, [&](const error& e) {
                return support::is(errc::invalid_argument)(e) &&
                       std::string(e.what()).find("capturing") != std::string::npos;
            });
            q.to_host(c);
            support::wait(q);
            staging_arena staging;
            staging.pin_for(any, on_gpu());
            staging.reserve(100);
            BOOST_TEST(staging.stats().bytes_pinned == 0u);
            BOOST_TEST(staging.stats().pin_failure.find("capturing") != std::string::npos);
            BOOST_TEST(gpu.end_capture(user));
        }
        support::check_clean(gpu);
    }
}

BOOST_AUTO_TEST_CASE(each_call_fails_in_turn) {
    for (bool const after : {false, true}) {
        for (std::uint64_t n = 1;; ++n) {
            fake_gpu gpu(n);
            auto* const user = gpu.new_stream();
            auto* const at = gpu.allocate(0, 1000);
            gpu.write(at, std::vector<std::byte>(1000, std::byte{5}));
            bool failed = false;
            std::uint64_t calls = 0;
            {
                fake_cuda_memory space(user);
                staging_arena staging;
                staging.pin_for(any_memory_space::refer(space), on_gpu());
                gpu.fail_call(n, after);
                std::optional<arena_lease> block;
                std::optional<any_copy_queue> q;
                try {
                    block = staging.try_take(1000);
                    q = any_memory_space::refer(space).open(on_gpu());
                    auto const v = support::bytes_at(at, 1000);
                    q->fence({&v, 1});
                    const pitched_copy c[] = {{at, block->bytes().data(), 500},
                                              {at + 500, block->bytes().data() + 500, 500}};
                    q->to_host(c);
                    support::wait(*q);
                    q->make_wait(user);
                    for (auto b : block->bytes()) BOOST_TEST_REQUIRE((b == std::byte{5}));
                } catch (const error& e) {
                    failed = true;
                    BOOST_TEST((e.code() == errc::device_failed), e.what());
                    BOOST_TEST(std::string(e.what()).find("injected") != std::string::npos);
                    BOOST_TEST(std::string(e.what()).find("device 0") != std::string::npos);
                }
                calls = gpu.calls();
                failed = failed || !staging.stats().pin_failure.empty();
                // What the caller does whose copies may be under way: it waits, by another queue if
                // need be, or gives the block up.
                gpu.fail_call(0);
                gpu.synchronize();
                // The same objects go on.
                if (q) {
                    auto const v = support::bytes_at(at, 1000);
                    q->fence({&v, 1});
                    support::wait(*q);
                }
            }
            gpu.synchronize();
            for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule << ", call " << n);
            // A handle whose creation or destruction failed is lost; nothing else is.
            BOOST_TEST(gpu.in_use() <= 1u);
            if (!failed && n > calls) {
                BOOST_TEST(n > 20u);
                break;
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_device_that_has_failed_is_an_error_and_no_hang) {
    fake_gpu gpu(fake_gpu::options{2, 1});
    auto* const user = gpu.new_stream();
    auto* const at = gpu.allocate(0, 100);
    fake_cuda_memory space(user);
    auto q = any_memory_space::refer(space).open(on_gpu());
    auto other = any_memory_space::refer(space).open(on_gpu(1));
    staging_arena staging;
    staging.pin_for(any_memory_space::refer(space), on_gpu());
    auto block = *staging.try_take(100);
    const pitched_copy c[] = {{at, block.bytes().data(), 100}};
    q.to_host(c);
    auto const t = q.record();
    gpu.fail_device(0);
    auto const gone = support::is(errc::device_failed);
    BOOST_CHECK_EXCEPTION(while (!q.reached(t)){}, error, gone);
    BOOST_CHECK_EXCEPTION(q.to_host(c), error, gone);
    BOOST_CHECK_EXCEPTION((void)q.record(), error, gone);
    BOOST_CHECK_EXCEPTION(q.make_wait(user), error, gone);
    BOOST_CHECK_EXCEPTION((void)any_memory_space::refer(space).open(on_gpu()), error, gone);
    support::wait(other);
    block.abandon();
}

BOOST_AUTO_TEST_CASE(pinning_that_fails_is_said) {
    fake_gpu gpu(fake_gpu::options{1, 1, std::uint64_t{3} << 20});
    fake_cuda_memory space;
    staging_arena staging;
    staging.pin_for(any_memory_space::refer(space), on_gpu());
    staging.reserve(std::uint64_t{2} << 20);
    BOOST_TEST(staging.stats().bytes_pinned == std::uint64_t{2} << 20);
    BOOST_TEST(staging.stats().pin_failure == "");
    auto const a = *staging.try_take(std::size_t{2} << 20);
    staging.reserve(std::uint64_t{4} << 20);
    auto const s = staging.stats();
    BOOST_TEST(s.bytes_mapped == std::uint64_t{6} << 20);
    BOOST_TEST(s.bytes_pinned == std::uint64_t{2} << 20);
    BOOST_TEST(s.pin_failure.find("pin 4194304 bytes") != std::string::npos);
    BOOST_TEST(s.pin_failure.find("out of memory") != std::string::npos);
    auto const b = *staging.try_take(std::size_t{2} << 20);
    BOOST_TEST(a.pinned() != b.pinned());
}

BOOST_AUTO_TEST_CASE(an_empty_function_is_no_stream) {
    BOOST_CHECK_EXCEPTION(fake_cuda_memory(fake_cuda_memory::stream_of{}), error,
                          support::is(errc::invalid_argument));
    BOOST_TEST(!fake_cuda_memory().serves(device_id{}));
    BOOST_TEST((!fake_cuda_memory().serves({own_memory_kind(0), 0})));
}

BOOST_AUTO_TEST_SUITE_END()
