// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SAVE_DEVICE_STATE_HPP
#define CAIRN_TEST_SAVE_DEVICE_STATE_HPP

#include "background_ranks.hpp"
#include "support/error_text.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

/// A state on devices, and what tests of its saves share.
namespace device_state {

namespace asio = boost::asio;
using background_ranks::code_of;
using support::check_clean;
using support::contains;
using support::device_tensor;
using support::error_of;
using support::fake_cuda_memory;
using support::fake_gpu;
using support::on_gpu;

/// Tensors on two devices and on the host, of all kinds.
struct mixed_state {
    explicit mixed_state(fake_gpu& gpu)
        : dense(gpu, 0, {40, 50}), gaps(gpu, 1, {7, 5}, {16, 2}),
          transposed(gpu, 0, {6, 4}, {1, 6}), scalar(gpu, 1, cairn::index_vector{}),
          none(gpu, 0, {0, 3}) {}

    void produce(support::gpu::stream* first, support::gpu::stream* second, float from) {
        dense.produce(first, from);
        gaps.produce(second, from + 1);
        transposed.produce(first, from + 2);
        scalar.produce(second, from + 3);
        host.assign(9, from + 4);
    }
    cairn::state_dict dict() {
        return {{"dense", dense.view},   {"tied", dense.view},
                {"gaps", gaps.view},     {"transposed", transposed.view},
                {"scalar", scalar.view}, {"none", none.view},
                {"host", host},          {"step", std::ref(step)}};
    }
    bool is_stored(const support::whole& w) const {
        auto const holds = [&](const char* fqn, const std::vector<float>& v) {
            auto const& bytes = w.tensors.at(fqn).bytes;
            return bytes.size() == v.size() * sizeof(float) &&
                   (v.empty() || std::memcmp(bytes.data(), v.data(), bytes.size()) == 0);
        };
        return holds("dense", dense.produced()) && holds("tied", dense.produced()) &&
               holds("gaps", gaps.produced()) && holds("transposed", transposed.produced()) &&
               holds("scalar", scalar.produced()) && holds("none", {}) && holds("host", host);
    }

    device_tensor dense, gaps, transposed, scalar, none;
    std::vector<float> host{};
    int step = 3;
};

/// Two devices with a stream each, which a function of the tensor finds.
struct two_devices {
    explicit two_devices(std::uint64_t seed, std::uint64_t pinnable = UINT64_MAX)
        : gpu({2, seed, pinnable}), first(gpu.new_stream(0, false)),
          second(gpu.new_stream(1, false)), space([this](const cairn::const_tensor_view& t) {
              return t.device.index == 0 ? first : second;
          }) {}

    fake_gpu gpu;
    support::gpu::stream *first, *second;
    fake_cuda_memory space;
};

inline std::string text_of(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const std::exception& x) {
        return x.what();
    }
}

/// Runs what is ready until `over`, or nothing happens any more.
template <class Over>
void run_until(asio::io_context& on, Over over) {
    while (!over())
        if (on.run_one_for(std::chrono::seconds(20)) == 0) break;
    BOOST_TEST(over());
}

}  // namespace device_state

#endif
