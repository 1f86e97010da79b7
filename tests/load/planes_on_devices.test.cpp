// SPDX-License-Identifier: Apache-2.0
// Data planes that serve devices: large tensors reach them without a way through the host.
#include "replicas.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"

#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/testing/device_data_plane.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(planes_on_devices)

using replicas::must;
using replicas::numbers;
using support::check_clean;
using support::device_tensor;
using support::fake_cuda_memory;
using support::fake_gpu;
using support::on_gpu;

namespace {

using member = cairn::thread_group::member;

struct counts {
    std::atomic<int> in_place{0};  ///< Broadcasts of device memory …
    std::atomic<int> ended{0};     ///< … and of any that have succeeded.
};

/// Sends from and to devices by kernels of its own, which the fake orders after nothing: what the
/// concept forbids is noted there.
class device_plane {
public:
    device_plane(member& m, fake_gpu& gpu, int device, counts& n)
        : inner_(m), gpu_(&gpu), device_(device), counts_(&n),
          stream_(gpu.new_stream(device, false)) {}
    int rank() const { return inner_.rank(); }
    int size() const { return inner_.size(); }
    int plane_id() const { return 0; }
    void cancel() noexcept { inner_.cancel(); }
    bool serves(cairn::device_id d) const { return cairn::is_host(d.kind) || d == on_gpu(device_); }
    void broadcast(cairn::memory_span m, int root, cairn::deadline d,
                   cairn::completion<cairn::done_t> done) {
        bool const here = cairn::is_host(m.device.kind), mine = root == rank();
        must(serves(m.device), "memory of a device that the plane does not serve");
        if (!here) ++counts_->in_place;
        auto const bytes = std::make_shared<std::vector<std::byte>>(here ? 0 : m.size);
        if (!here && mine) kernel(m, false, *bytes);
        auto const to = std::make_shared<cairn::completion<cairn::done_t>>(std::move(done));
        inner_.broadcast(here ? m : cairn::memory_span(*bytes), root, d,
                         cairn::completion<cairn::done_t>([=, this](std::exception_ptr e, auto) {
                             if (e) return to->fail(std::move(e));
                             if (!here && !mine) kernel(m, true, *bytes);
                             ++counts_->ended;
                             (*to)();
                         }));
    }

private:
    void kernel(const cairn::memory_span& m, bool writes, std::vector<std::byte>& bytes) {
        gpu_->launch(stream_, "a broadcast", {{m.data, m.data + m.size, writes}}, [&, m, writes] {
            auto* const there = gpu_->bytes_of(m.data, m.size);
            writes ? std::memcpy(there, bytes.data(), m.size)
                   : std::memcpy(bytes.data(), there, m.size);
        });
        must(gpu_->synchronize(stream_), "a stream that does not end");
    }

    cairn::communicator_data_plane<member> inner_;
    fake_gpu* gpu_;
    int device_;
    counts* counts_;
    support::gpu::stream* stream_;
};
static_assert(cairn::DataPlane<device_plane>);

/// Devices that work while the program does other things, as real ones do.
class running_gpu {
public:
    explicit running_gpu(fake_gpu& gpu)
        : thread_([&gpu, this] {
              while (!over_) {
                  (void)gpu.synchronize();
                  std::this_thread::sleep_for(std::chrono::microseconds(100));
              }
          }) {}
    running_gpu(running_gpu&&) = delete;
    ~running_gpu() {
        over_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

constexpr std::int64_t rows = 1500, columns = 1000;  // 6 MB: large

cairn::load_options read_once() {
    cairn::load_options o;
    o.read_once_from = 0;
    return o;
}
/// Three large tensors and a small one.
struct stored {
    std::vector<float> v = numbers(static_cast<std::size_t>(rows * columns), 1);
    std::vector<float> small = numbers(100, 7);
    cairn::memory_store store{};
    stored() {
        cairn::state_dict sd{{"small", small}};
        for (auto const* name : {"a", "b", "c"})
            sd[name] = cairn::tensor_view(cairn::dtype::f32, {rows, columns}, v.data());
        cairn::save(sd, "c", store);
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_plane_of_these_tests_keeps_a_data_planes_word) {
    fake_gpu gpu({3, 4});
    counts n;
    BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [&](member& me) {
        device_plane plane(me, gpu, me.rank(), n);
        auto* const user = gpu.new_stream(me.rank());
        fake_cuda_memory space(user);
        cairn::testing::memory_under_test<fake_cuda_memory> const t{
            space,
            on_gpu(me.rank()),
            user,
            [&](std::size_t bytes) { return gpu.allocate(me.rank(), bytes); },
            [&](std::byte* at) { gpu.release(at); },
            {}};
        cairn::testing::check_broadcasts(plane, 5000);
        cairn::testing::check_device_broadcasts(plane, t, 100'000);
    }));
    BOOST_TEST(n.in_place > 20);
    check_clean(gpu);
}

/// On ranks 0 and 1 the tensors are dense, on rank 2 they have gaps, and rank 3 is on the host.
BOOST_AUTO_TEST_CASE(large_tensors_arrive_in_place) {
    stored from;
    fake_gpu gpu({4, 3});
    counts n[4];
    running_gpu const running(gpu);
    BOOST_CHECK_NO_THROW(cairn::run_ranks(4, [&](member& me) {
        auto const r = me.rank();
        auto* const user = gpu.new_stream(r);
        cairn::index_vector const strides{r == 2 ? columns + 8 : columns, 1};
        device_tensor a(gpu, r, {rows, columns}, strides), b(gpu, r, {rows, columns}, strides),
            c(gpu, r, {rows, columns}, strides), small(gpu, r, {100});
        std::vector<std::vector<float>> on_host;
        cairn::state_dict sd{{"small", small.view}};
        small.produce(user, 9);
        for (auto* t : {&a, &b, &c}) {
            t->produce(user, 1e6f);
            on_host.push_back(t->memory);
        }
        sd["a"] = r == 3 ? a.on_host(on_host[0]) : a.view;
        sd["b"] = r == 3 ? b.on_host(on_host[1]) : b.view;
        sd["c"] = r == 3 ? c.on_host(on_host[2]) : c.view;
        gpu.synchronize(user);
        device_plane plane(me, gpu, r, n[r]);
        auto const report =
            cairn::load(sd, "c", read_once(), from.store, me, plane, fake_cuda_memory(user));
        must(report.read_once.once_bytes >= 3 * sizeof(float) * rows * columns, "not read once");
        must((r == 3 ? a.elements(on_host[0]) : a.elements()) == from.v, "other content of a");
        must((r == 3 ? b.elements(on_host[1]) : b.elements()) == from.v, "other content of b");
        must((r == 3 ? c.elements(on_host[2]) : c.elements()) == from.v, "other content of c");
        must(small.elements() == from.small, "other small content");
    }));
    // Each of the tensors is read by one rank, and the others receive it.
    BOOST_TEST(n[0].in_place + n[1].in_place >= 3);
    BOOST_TEST(n[2].in_place == 0);
    BOOST_TEST(n[3].in_place == 0);
    check_clean(gpu);
}

/// What still uses a tensor is not waited for in the broadcast, which other ranks are in.
BOOST_AUTO_TEST_CASE(a_tensor_that_is_still_produced_is_staged) {
    stored from;
    fake_gpu gpu({2, 5});
    counts n[2];
    running_gpu const running(gpu);
    BOOST_CHECK_NO_THROW(cairn::run_ranks(2, [&](member& me) {
        auto const r = me.rank();
        auto* const user = gpu.new_stream(r);
        device_tensor a(gpu, r, {rows, columns}), b(gpu, r, {rows, columns}),
            c(gpu, r, {rows, columns}), small(gpu, r, {100});
        std::vector<support::gpu::work_ptr> late;
        for (auto* t : {&a, &b, &c, &small}) late.push_back(t->produce(user, 1e6f, r == 1));
        if (r == 0) gpu.synchronize(user);
        cairn::state_dict sd{{"a", a.view}, {"b", b.view}, {"c", c.view}, {"small", small.view}};
        device_plane plane(me, gpu, r, n[r]);
        std::atomic<bool> over{false};
        std::thread later([&] {  // after the broadcasts of the large tensors
            while (n[r].ended < 3 && !over)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            for (auto const& w : late) gpu.let_go(w);
        });
        std::exception_ptr failure;
        try {
            cairn::load(sd, "c", read_once(), from.store, me, plane, fake_cuda_memory(user));
        } catch (...) {
            failure = std::current_exception();
        }
        over = true;
        later.join();
        if (failure) std::rethrow_exception(failure);
        for (auto* t : {&a, &b, &c}) must(t->elements() == from.v, "other content");
        must(small.elements() == from.small, "other small content");
    }));
    BOOST_TEST(n[1].in_place == 0);
    check_clean(gpu);
}

/// A broadcast that fails ends the load on all ranks, wherever the memory was.
BOOST_AUTO_TEST_CASE(a_broadcast_in_place_that_fails_ends_the_load_on_all_ranks) {
    stored from;
    for (int at = 0; at < 3; ++at) {
        fake_gpu gpu({2, 6});
        counts n[2];
        running_gpu const running(gpu);
        std::atomic<int> failed{0};
        BOOST_CHECK_NO_THROW(cairn::run_ranks(2, [&](member& me) {
            auto const r = me.rank();
            auto* const user = gpu.new_stream(r);
            device_tensor a(gpu, r, {rows, columns}), b(gpu, r, {rows, columns});
            cairn::state_dict sd{{"a", a.view}, {"b", b.view}};
            device_plane inner(me, gpu, r, n[r]);
            replicas::bad_plane plane(inner, r == 1 ? at : -1, false);
            auto o = read_once();
            o.planner.partial = true;
            try {
                cairn::load(sd, "c", o, from.store, me, plane, fake_cuda_memory(user));
            } catch (const cairn::error& e) {
                must(e.state_modified(), "an error that calls the state unmodified");
                ++failed;
            }
        }));
        BOOST_TEST((failed == 2 || (failed == 0 && at >= 2)));
        gpu.synchronize();
        for (auto const& rule : gpu.broken_rules()) BOOST_ERROR("a rule was broken: " + rule);
    }
}

BOOST_AUTO_TEST_SUITE_END()
