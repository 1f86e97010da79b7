// SPDX-License-Identifier: Apache-2.0
// checkpointer_options::overlap with several streams and devices: what each update waits for.
#include "checkpointed_ranks.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_overlap_devices)

using support::device_tensor;
using support::fake_cuda_memory;
using support::fake_gpu;

namespace {

cairn::checkpointer_options overlapping() {
    return {.every = cairn::steps(1), .overlap = true};
}

/// Two tensors, each with the stream that produces it.
struct two_tensors {
    /// @param other  The second one's device.
    two_tensors(fake_gpu& gpu, int other)
        : first(gpu.new_stream(0, false)), second(gpu.new_stream(other, false)),
          v(gpu, 0, {30, 20}), w(gpu, other, {17}) {}

    cairn::state_dict state_dict() { return {{"v", v.view}, {"w", w.view}}; }
    void load_state_dict(const cairn::state_dict&) {}
    fake_cuda_memory space() {
        return fake_cuda_memory(
            [this](const cairn::const_tensor_view& t) { return t.data == v.at ? first : second; });
    }
    /// Kernels that no copy can pass until they are let go.
    std::vector<support::gpu::work_ptr> produce_late() {
        return {v.produce(first, 1, true), w.produce(second, 1000, true)};
    }

    support::gpu::stream *first, *second;
    device_tensor v, w;
};

bool is_stored(cairn::memory_store& base, const char* fqn, const std::vector<float>& all) {
    auto const bytes = support::load_whole(base, "step_1").tensors.at(fqn).bytes;
    return bytes.size() == all.size() * sizeof(float) &&
           std::memcmp(bytes.data(), all.data(), bytes.size()) == 0;
}

/// Saves a step, enqueues the next update while no copy has begun, and looks at what was saved.
/// @param update  Called with the checkpointer and the tensors.
template <class F>
void check_order(fake_gpu& gpu, int other, F update) {
    cairn::memory_store base;
    {
        two_tensors s(gpu, other);
        cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), s.space());
        auto const late = s.produce_late();
        auto const v = s.v.produced(), w = s.w.produced();
        BOOST_TEST(bool(ckpt.maybe_save(1, s)));
        update(ckpt, s);
        for (auto const& kernel : late) gpu.let_go(kernel);
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(is_stored(base, "v", v));
        BOOST_TEST(is_stored(base, "w", w));
        gpu.synchronize();
    }
    support::check_clean(gpu);
}

}  // namespace

/// Each stream that changes tensors starts after all copies, not only the first that asks.
BOOST_AUTO_TEST_CASE(updates_on_two_streams_are_ordered) {
    for (int other : {0, 1}) {
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            fake_gpu gpu({2, seed});
            check_order(gpu, other, [](cairn::checkpointer& ckpt, two_tensors& s) {
                ckpt.before_update(s.first);
                ckpt.before_update(s.second);
                s.v.produce(s.first, 5000);
                s.w.produce(s.second, 6000);
            });
        }
    }
}

/// One stream that changes tensors of two devices starts after the copies from both.
BOOST_AUTO_TEST_CASE(one_stream_waits_for_every_device) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        for (bool const of_first : {true, false}) {
            fake_gpu gpu({2, seed});
            check_order(gpu, 1, [&](cairn::checkpointer& ckpt, two_tensors& s) {
                auto* const on = of_first ? s.first : s.second;
                ckpt.before_update(on);
                s.v.produce(on, 5000);
                s.w.produce(on, 6000);
            });
        }
    }
}

/// That a stream waits is not enough for the host, which changes memory itself: it waits too.
BOOST_AUTO_TEST_CASE(a_change_by_the_host_waits_for_the_copies) {
    for (int other : {0, 1}) {
        fake_gpu gpu({2, 7});
        cairn::memory_store base;
        {
            two_tensors s(gpu, other);
            cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), s.space());
            s.v.produce(s.first, 1);
            s.w.produce(s.second, 1000);
            gpu.synchronize();
            auto const late = gpu.launch(s.first, "a late kernel", {}, {}, true);
            BOOST_TEST(bool(ckpt.maybe_save(1, s)));
            ckpt.before_update(s.first);
            auto const opener = std::async(std::launch::async, [&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                gpu.let_go(late);
            });
            ckpt.before_update();
            std::vector<std::byte> const zeros(s.v.bytes());
            gpu.write(s.v.at, zeros);
            BOOST_TEST(ckpt.wait().has_value());
            BOOST_TEST(is_stored(base, "v", s.v.produced()));
            BOOST_TEST(is_stored(base, "w", s.w.produced()));
        }
        support::check_clean(gpu);
    }
}

/// Each rank reads its replica in rounds, also one that writes nothing of it: an update comes after
/// the last of them.
BOOST_AUTO_TEST_CASE(an_update_waits_until_replicas_are_compared) {
    struct one_tensor {
        device_tensor& w;
        cairn::state_dict state_dict() { return {{"w", w.view}}; }
        void load_state_dict(const cairn::state_dict&) {}
    };
    fake_gpu gpu({2, 3});
    cairn::memory_store base;
    {
        cairn::index_vector const several_rounds{900, 1000};
        device_tensor first(gpu, 0, several_rounds), second(gpu, 1, several_rounds);
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            one_tensor s{me.rank() == 0 ? first : second};
            auto* const stream = gpu.new_stream(me.rank(), false);
            auto options = overlapping();
            options.save.replicas = cairn::replica_policy::verify;
            cairn::checkpointer ckpt(me, base, options, fake_cuda_memory(stream));
            auto const late = s.w.produce(stream, 1, true);
            BOOST_TEST(bool(ckpt.maybe_save(1, s)));
            auto const opener = std::async(std::launch::async, [&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                gpu.let_go(late);
            });
            ckpt.before_update(stream);
            s.w.produce(stream, 5000);
            BOOST_TEST(ckpt.wait().has_value());
        });
        gpu.synchronize();
    }
    support::check_clean(gpu);
}

/// Reserved memory is pinned, as that of the first save would be.
BOOST_AUTO_TEST_CASE(reserved_memory_is_pinned) {
    fake_gpu gpu(1);
    {
        cairn::memory_store base;
        two_tensors s(gpu, 0);
        cairn::checkpointer ckpt(cairn::solo(), base, overlapping(), s.space());
        (void)ckpt.reserve(s);
        auto const before = ckpt.staging_memory();
        BOOST_TEST(before.bytes_pinned == before.bytes_mapped);
        BOOST_TEST(before.bytes_pinned > 0u);
        for (auto const& kernel : s.produce_late()) gpu.let_go(kernel);
        BOOST_TEST(bool(ckpt.save_now(1, s)));
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(ckpt.staging_memory().bytes_mapped == before.bytes_mapped);
        gpu.synchronize();
    }
    support::check_clean(gpu);
}

BOOST_AUTO_TEST_SUITE_END()
