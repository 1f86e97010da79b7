// SPDX-License-Identifier: Apache-2.0
// A communicator of your own: a class that satisfies the concept `Communicator`, cairn's test suite
// for such classes, and a save and a load with it.
#include "own_communicator.hpp"

#include <cairn/cairn.hpp>
#include <cairn/testing/communicator.hpp>

#include <sys/wait.h>

#include <cstdio>
#include <deque>
#include <vector>

constexpr int world_size = 3;

/// Runs one of the processes.
int run(int rank, std::deque<shared_world>& worlds) {
    auto next = worlds.begin();
    // Tests the semantics of the concept; no test framework is needed.
    auto const failures = cairn::testing::communicator_suite(
        [&] { return shared_ranks(*next++, rank); }, std::size_t{1} << 20);
    for (auto const& f : failures) std::printf("%s\n", f.c_str());

    shared_ranks ranks(*next++, rank);
    std::vector<float> row(4, static_cast<float>(rank)), again(4, -1.0f);
    auto const rows = [&](std::vector<float>& mine) {
        cairn::tensor_view const view(cairn::dtype::float32, {1, 4}, mine.data());
        return cairn::shard_by_mesh(view, {world_size, 4}, cairn::device_mesh::line(world_size),
                                    {cairn::shard_along{0}}, rank);
    };
    cairn::save(cairn::state_dict{{"rows", rows(row)}}, "ckpt/own_communicator", ranks);
    cairn::load(cairn::state_dict{{"rows", rows(again)}}, "ckpt/own_communicator", ranks);
    return failures.empty() && again == row ? 0 : 1;
}

int main() {
    std::deque<shared_world> worlds;
    for (int i = 0; i < 40; ++i) worlds.emplace_back(world_size);
    for (int rank = 0; rank < world_size; ++rank) {
        auto const child = ::fork();
        if (child < 0) {
            std::perror("fork");
            return 1;
        }
        if (child > 0) continue;
        int code = 1;
        try {
            code = run(rank, worlds);
        } catch (const std::exception& e) {
            std::printf("rank %d: %s\n", rank, e.what());
        }
        std::fflush(stdout);
        ::_exit(code);
    }
    int wrong = 0;
    for (int status = 0; ::wait(&status) > 0;) wrong += status != 0;
    std::printf("own communicator: %d ranks wrong\n", wrong);
    return wrong;
}
