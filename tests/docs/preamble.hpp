// SPDX-License-Identifier: Apache-2.0
// What the documents' examples take for granted: a user's types and variables.
#ifndef CAIRN_TESTS_DOCS_PREAMBLE_HPP
#define CAIRN_TESTS_DOCS_PREAMBLE_HPP

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/split.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/frozen_tensors.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/object_store/s3.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/observe/prometheus_metrics.hpp>
#include <cairn/observe/trace_file.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace accelerator {
inline constexpr cairn::device_id id{cairn::own_memory_kind(0), 0};
struct memory : cairn::host_memory {
    bool serves(cairn::device_id d) const noexcept { return d == id; }
};
}  // namespace accelerator
namespace mine {
struct tensor {
    std::vector<std::int64_t> shape;
    float* data;
};
struct sharded {
    std::vector<std::int64_t> full_shape, offsets;
    tensor local;
};
sharded my_part(int rank, int size);
struct layer {
    tensor weight, bias;
};
struct adam {};
struct trainer {
    std::int64_t step, goal;
    cairn::state_dict state_dict();
    void load_state_dict(const cairn::state_dict&);
    void forward_backward();
    void update();
};
}  // namespace mine
template <>
struct cairn::optimizer_traits<mine::adam> {
    static void visit(mine::adam&, auto&) {}
};
void print(std::span<const float>);

extern std::vector<float> weights, cache;
extern std::int64_t step, seed;
extern cairn::thread_group::member ranks;
extern int my_shard;
extern cairn::tensor_view local;
extern cairn::sharded_view my_shards;
extern std::map<std::string, std::vector<float>> model;
extern mine::adam optimizer;
extern mine::trainer run;
extern cairn::device_mesh mesh;
extern float* memory;
extern std::int64_t begin, end;
extern int rank, world_size, process, processes, thread, threads;
std::string my_broadcast(const std::string&);
void my_broadcast_bytes(std::span<std::byte> bytes, int root);

#endif
