// SPDX-License-Identifier: Apache-2.0
// A trainer that has an event loop: its saves run on the same io_context, in the same thread, as
// its own coroutines.
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>
#include <cairn/memory/arena.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;

/// The state of a trainer: this rank's rows of a matrix, and the number of the current step.
struct trainer {
    int rank, ranks;
    std::vector<float> rows = std::vector<float>(1000, 0.0f);
    std::int64_t step = 0;

    cairn::state_dict state_dict() {
        auto const mine = cairn::tensor_view(cairn::dtype::float32, {10, 100}, rows.data());
        auto const line = cairn::device_mesh::line(ranks);
        return {{"weight", cairn::shard_by_mesh(mine, {10 * ranks, 100}, line,
                                                {cairn::shard_along{0}}, rank)},
                {"step", std::ref(step)}};
    }
    void load_state_dict(const cairn::state_dict&) {}

    void train() {
        ++step;
        for (auto& w : rows) w += 1.0f;
    }
};

asio::awaitable<void> train(trainer& t, cairn::any_communicator& ranks, std::string directory) {
    auto const loop = co_await asio::this_coro::executor;
    cairn::staging_arena arena;
    cairn::pending_save last;
    while (t.step < 30) {
        t.train();
        co_await asio::post(loop, asio::use_awaitable);  // lets other work on the loop run
        if (t.step % 10 != 0) continue;
        if (last) (void)co_await last.async_wait(asio::use_awaitable);
        auto const id = directory + "/step_" + std::to_string(t.step);
        last = co_await cairn::async_save(t, id, ranks, arena, loop, asio::use_awaitable);
    }
    (void)co_await last.async_wait(asio::use_awaitable);
}

/// Other work on the same loop.
asio::awaitable<void> count_ticks(int& ticks) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        timer.expires_after(std::chrono::milliseconds(1));
        co_await timer.async_wait(asio::use_awaitable);
        ++ticks;
    }
}

void run(cairn::any_communicator& ranks, const std::string& directory) {
    trainer t{ranks.rank(), ranks.size()};
    int ticks = 0;
    std::exception_ptr failure;
    asio::io_context loop(1);
    asio::co_spawn(loop, count_ticks(ticks), [](const std::exception_ptr&) {});
    asio::co_spawn(loop, train(t, ranks, directory), [&](std::exception_ptr e) {
        failure = std::move(e);
        loop.stop();
    });
    loop.run();
    if (failure) std::rethrow_exception(failure);

    trainer loaded{ranks.rank(), ranks.size()};
    cairn::load(loaded, directory + "/step_20", ranks);
    if (loaded.step != 20 || loaded.rows != std::vector<float>(1000, 20.0f))
        throw std::runtime_error("the checkpoint differs");
}

}  // namespace

int main() {
    try {
        cairn::run_launched_ranks(
            2, [](cairn::any_communicator& ranks) { run(ranks, "ckpt/shared_io_context"); });
        std::printf("three steps saved on the trainer's own io_context\n");
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
