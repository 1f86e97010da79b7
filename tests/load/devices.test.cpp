// SPDX-License-Identifier: Apache-2.0
// Loads into tensors on devices: nothing is written there but what was read.
#include "replicas.hpp"
#include "support/error_text.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"
#include "support/scratch.hpp"

#include <cairn/async_load.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(devices)

namespace asio = boost::asio;
using replicas::numbers;
using support::check_clean;
using support::contains;
using support::device_tensor;
using support::error_of;
using support::fake_cuda_memory;
using support::fake_gpu;

namespace {

cairn::memory_store store_with(cairn::state_dict sd) {
    cairn::memory_store store;
    cairn::save(sd, "c", store);
    return store;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_not_loaded_is_not_written) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        auto v = numbers(100, 1);
        auto store = store_with({{"w", v}});
        fake_gpu gpu(seed);
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {100}, {3}), missing(gpu, 0, {50});
        w.produce(user, 1000);
        missing.produce(user, 2000);
        cairn::state_dict sd{{"w", w.view}, {"missing", missing.view}};
        cairn::load_options o;
        o.planner.partial = true;
        BOOST_CHECK_NO_THROW(cairn::load(sd, "c", o, store, fake_cuda_memory(user)));
        BOOST_TEST((w.elements() == v));
        auto const now = w.now();
        for (std::size_t i = 0; i < now.size(); ++i)
            if (i % 3 != 0) BOOST_TEST(now[i] == w.memory[i]);
        gpu.synchronize();
        BOOST_TEST((missing.elements() == missing.produced()));
        check_clean(gpu);
    }
}

/// What fails its checksum never reaches the device.
BOOST_AUTO_TEST_CASE(damaged_bytes_stay_on_the_host) {
    support::scratch const at;
    cairn::file_store store(at.dir);
    auto v = numbers(10'000, 1);
    cairn::state_dict from{{"w", v}};
    cairn::save(from, "c", store);
    for (auto const& f : std::filesystem::recursive_directory_iterator(at.dir)) {
        if (f.path().extension() != ".distcp") continue;
        std::fstream file(f.path(), std::ios::binary | std::ios::in | std::ios::out);
        std::string all{std::istreambuf_iterator<char>(file), {}};
        auto const place = all.find(std::string(reinterpret_cast<const char*>(&v[77]), 40));
        BOOST_TEST_REQUIRE(place != std::string::npos);
        file.seekp(static_cast<std::streamoff>(place));
        file.put('?');
    }
    fake_gpu gpu(1);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {10'000});
    w.produce(user, 1000);
    cairn::state_dict sd{{"w", w.view}};
    auto const text = error_of([&] { cairn::load(sd, "c", store, fake_cuda_memory(user)); });
    BOOST_TEST(contains(text, {"'w'", "bytes"}), text);
    gpu.synchronize();
    BOOST_TEST((w.elements() == w.produced()));
    check_clean(gpu);
}

BOOST_AUTO_TEST_CASE(other_dtypes_are_converted_on_the_host) {
    auto v = numbers(500, 1);
    std::vector<double> d(v.begin(), v.end());
    auto store = store_with({{"w", d}});
    fake_gpu gpu(2);
    auto* const user = gpu.new_stream();
    device_tensor w(gpu, 0, {500}, {2});
    w.produce(user, 1000);
    cairn::state_dict sd{{"w", w.view}};
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    BOOST_CHECK_NO_THROW(cairn::load(sd, "c", o, store, fake_cuda_memory(user)));
    BOOST_TEST((w.elements() == v));
    check_clean(gpu);
}

/// A tied weight that is stored twice, as PyTorch does: the checksums are compared.
BOOST_AUTO_TEST_CASE(tied_weights_that_are_stored_twice_are_compared) {
    for (bool const differs : {false, true}) {
        auto v = numbers(500, 1), second = v;
        second[123] += differs ? 1.0f : 0.0f;
        auto store = store_with({{"embed", v}, {"head", second}});
        fake_gpu gpu(2);
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {500}, {2});
        w.produce(user, 1000);
        cairn::state_dict sd{{"embed", w.view}, {"head", w.view}};
        auto const text = error_of([&] { cairn::load(sd, "c", store, fake_cuda_memory(user)); });
        if (differs)
            BOOST_TEST(contains(text, {"'head'", "'embed'", "other content"}), text);
        else
            BOOST_TEST(text == "");
        gpu.synchronize();
        BOOST_TEST((w.elements() == (differs ? w.produced() : v)));
        check_clean(gpu);
    }
}

/// What one rank reads for all reaches every rank's device.
BOOST_AUTO_TEST_CASE(shared_reads_go_to_devices) {
    auto v = numbers(60'000, 1);
    cairn::tensor_view const matrix(cairn::dtype::f32, {300, 200}, v.data());
    std::vector<std::vector<float>> small(20, numbers(10, 7));
    cairn::state_dict from{{"w", matrix}};
    for (std::size_t i = 0; i < small.size(); ++i)
        from["s" + std::to_string(i)] =
            cairn::tensor_view(cairn::dtype::f32, {1, 10}, small[i].data());
    auto store = store_with(std::move(from));
    fake_gpu gpu({3, 7});
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        auto* const user = gpu.new_stream(me.rank());
        // Rank 1 has gaps, rank 2 is on the host.
        device_tensor w(gpu, me.rank(), {300, 200}, {me.rank() == 1 ? 210 : 200, 1}),
            s(gpu, me.rank(), {20, 10});
        w.produce(user, 1e6f);
        s.produce(user, 2e6f);
        auto memory = w.memory;
        cairn::state_dict sd{{"w", me.rank() == 2 ? w.on_host(memory) : w.view}};
        for (std::int64_t i = 0; i < 20; ++i)
            sd["s" + std::to_string(i)] = cairn::subview(s.view, {{i, 0}, {1, 10}});
        cairn::load_options o;
        o.read_once_from = 0;
        cairn::communicator_data_plane plane(me);
        auto const report = cairn::load(sd, "c", o, store, me, plane, fake_cuda_memory(user));
        if (report.read_once.once_bytes == 0) throw std::runtime_error("nothing was read once");
        if ((me.rank() == 2 ? w.elements(memory) : w.elements()) != v)
            throw std::runtime_error("other content");
        if (s.elements()[0] != 7 || s.elements()[199] != 16)
            throw std::runtime_error("other small content");
    });
    gpu.synchronize();
    check_clean(gpu);
}

/// No thread waits for a device, and the load ends when the device has everything.
BOOST_AUTO_TEST_CASE(a_late_kernel_holds_up_no_thread) {
    auto v = numbers(5000, 1);
    auto store = store_with({{"w", v}});
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        fake_gpu gpu({1, 5, pinnable});
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {5000});
        auto const kernel = w.produce(user, 1000, true);
        cairn::state_dict sd{{"w", w.view}};
        asio::io_context on;
        std::exception_ptr failure;
        bool over = false;
        cairn::async_load(sd, "c", store, fake_cuda_memory(user), on.get_executor(),
                          asio::bind_executor(on, [&](std::exception_ptr e, cairn::load_report) {
                              failure = std::move(e);
                              over = true;
                          }));
        for (int i = 0; i < 100; ++i) on.run_one_for(std::chrono::milliseconds(1));
        BOOST_TEST(!over);
        BOOST_TEST(gpu.copies() == 0u);
        gpu.let_go(kernel);
        while (!over && on.run_one_for(std::chrono::seconds(20)) != 0) {
        }
        BOOST_TEST(over);
        BOOST_TEST(!failure);
        BOOST_TEST((w.elements() == v));
        check_clean(gpu);
    }
}

/// Each call of the device's API fails in turn: an error or the content, and never a race.
BOOST_AUTO_TEST_CASE(a_failure_of_the_device_is_an_error_or_harmless) {
    auto v = numbers(600, 1), u = numbers(300, 9);
    auto store = store_with({{"u", u}, {"w", v}});
    for (bool const after : {false, true}) {
        int failed = 0;
        for (std::uint64_t nth = 1; nth < 45; ++nth) {
            fake_gpu gpu({2, nth});
            auto *const first = gpu.new_stream(0), *const second = gpu.new_stream(1);
            device_tensor w(gpu, 0, {600}, {2}), t(gpu, 1, {300});
            w.produce(first, 1000);
            t.produce(second, 1000);
            cairn::state_dict sd{{"w", w.view}, {"u", t.view}};
            gpu.fail_call(nth, after);
            auto const text = error_of([&] {
                cairn::load(sd, "c", store,
                            fake_cuda_memory([&](const cairn::const_tensor_view& x) {
                                return x.device.index == 0 ? first : second;
                            }));
            });
            failed += !text.empty();
            if (text.empty())
                BOOST_TEST((w.elements() == v && t.elements() == u));
            else
                BOOST_TEST(contains(text, {"'", "CUDA device", "injected"}), text);
            gpu.synchronize();
            for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(nth << ": " << rule);
        }
        BOOST_TEST(failed >= 10);
    }
}

/// A device that never ends does not hold up the load for ever, and when it does end, no copy that
/// the load has enqueued changes the tensor.
BOOST_AUTO_TEST_CASE(a_device_that_does_not_end_does_not_hold_up_the_load) {
    auto v = numbers(5000, 1);
    auto store = store_with({{"w", v}});
    for (std::uint64_t pinnable : {UINT64_MAX, std::uint64_t{0}}) {
        fake_gpu gpu({1, 4, pinnable});
        auto* const user = gpu.new_stream();
        device_tensor w(gpu, 0, {5000});
        auto const kernel = w.produce(user, 1000, true);
        cairn::state_dict sd{{"w", w.view}};
        cairn::load_options o;
        o.exchange_timeout = std::chrono::milliseconds(100);
        try {
            cairn::load(sd, "c", o, store, fake_cuda_memory(user));
            BOOST_ERROR("no exception");
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == make_error_code(cairn::errc::timed_out)));
            BOOST_TEST(contains(e.what(), {"'w'", "copies to cuda:0", "exchange_timeout"}),
                       e.what());
            BOOST_TEST(e.state_modified());
        }
        gpu.let_go(kernel);
        BOOST_TEST(gpu.synchronize());
        BOOST_TEST(gpu.copies() == 0u);
        BOOST_TEST((w.elements() == w.produced()));
        for (auto const& rule : gpu.broken_rules()) BOOST_ERROR(rule);
    }
}

BOOST_AUTO_TEST_CASE(without_its_space_a_device_is_refused) {
    auto v = numbers(100, 1);
    auto store = store_with({{"w", v}});
    fake_gpu gpu(1);
    device_tensor w(gpu, 0, {100});
    cairn::state_dict sd{{"w", w.view}};
    try {
        cairn::load(sd, "c", store);
        BOOST_ERROR("no exception");
    } catch (const cairn::error& e) {
        BOOST_TEST(!e.state_modified());
        BOOST_TEST(contains(e.what(), {"'w'", "cuda:0", "cairn/memory/cuda.hpp"}), e.what());
    }
    check_clean(gpu);
}

BOOST_AUTO_TEST_SUITE_END()
