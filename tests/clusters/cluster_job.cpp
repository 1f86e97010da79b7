// SPDX-License-Identifier: Apache-2.0
// What runs on the clusters of tests/cluster.
//
//     cluster_job train DIR STEPS MS             one rank: resumes, then trains up to STEPS and
//                                                makes a file `finished`; a signal saves, and
//                                                ends it with 0
//     cluster_job overwrite PLACE TIMES VALUE    one process: saves VALUE over PLACE, TIMES times
//     cluster_job follow PLACE TIMES             one process: loads PLACE, TIMES times
//
// Each line that it prints is for the test to read.
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t rows = 60, columns = 4096;

/// This rank's rows of a matrix whose elements all are the number of the step.
struct model {
    model(int rank, int ranks)
        : region(cairn::boxes_of({rows, columns}, cairn::device_mesh::line(ranks),
                                 {cairn::shard_along{0}}, rank)
                     .at(0)),
          weight(static_cast<std::size_t>(region.volume()), 0.0f) {}

    cairn::state_dict state_dict() {
        auto const mine = cairn::tensor_view(cairn::dtype::float32, region.shape, weight.data());
        return {{"weight", cairn::sharded_view({rows, columns}, cairn::dtype::float32,
                                               {cairn::shard(region, mine)})},
                {"step", std::ref(step)}};
    }
    void load_state_dict(const cairn::state_dict&) {
        for (float w : weight)
            if (w != static_cast<float>(step)) throw std::runtime_error("elements of two steps");
    }
    void train() {
        ++step;
        for (float& w : weight) w += 1.0f;
    }

    cairn::box region;
    std::vector<float> weight;
    std::int64_t step = 0;
};

template <class... Words>
void say(const char* format, Words... words) {
    std::printf(format, words...);
    std::printf("\n");
    std::fflush(stdout);
}

int train(const std::string& directory, std::int64_t goal, int milliseconds) {
    auto ranks = cairn::tcp_group::from_environment();
    auto const rank = ranks.rank();
    say("rank %d has pid %d", rank, static_cast<int>(::getpid()));
    model m(rank, ranks.size());
    cairn::checkpointer checkpoints(
        ranks, directory,
        {.every = cairn::steps(10), .keep = cairn::last(2), .save_on_signal = {SIGTERM, SIGUSR1}});
    auto const found = checkpoints.load_latest(m);
    say("rank %d begins at step %lld", rank, static_cast<long long>(found ? m.step : 0));
    while (m.step < goal) {
        m.train();
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        auto const done = checkpoints.maybe_save(m.step, m);
        if (!done.signals.empty()) {
            checkpoints.wait();
            say("rank %d saved step %lld on signal %d", rank, static_cast<long long>(m.step),
                done.signals.front());
            return 0;
        }
    }
    checkpoints.save_now(m.step, m);
    checkpoints.wait();
    if (rank == 0) std::ofstream("finished") << m.step << std::endl;
    say("rank %d reached step %lld", rank, static_cast<long long>(m.step));
    return 0;
}

int overwrite(const std::string& place, int times, int value) {
    std::vector<float> weight(static_cast<std::size_t>(rows * columns), static_cast<float>(value));
    int saved = 0, concurrent = 0;
    for (int n = 0; n < times; ++n) {
        try {
            cairn::save(
                cairn::state_dict{{"weight", cairn::tensor_view(cairn::dtype::float32,
                                                                {rows, columns}, weight.data())}},
                place);
            ++saved;
        } catch (const cairn::error& e) {
            if (e.code() != make_error_code(cairn::errc::concurrent_save))
                say("failed: %s", e.what());
            else
                ++concurrent;
        }
    }
    say("%d saved, %d concurrent", saved, concurrent);
    return 0;
}

int follow(const std::string& place, int times) {
    std::vector<float> weight(static_cast<std::size_t>(rows * columns));
    int loaded = 0;
    for (int n = 0; n < times; ++n) {
        try {
            cairn::load(
                cairn::state_dict{{"weight", cairn::tensor_view(cairn::dtype::float32,
                                                                {rows, columns}, weight.data())}},
                place);
            for (float w : weight)
                if (w != weight.front()) throw std::runtime_error("elements of two checkpoints");
            ++loaded;
        } catch (const std::exception& e) {
            say("failed: %s", e.what());
        }
    }
    say("%d loaded", loaded);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> const a(argv + 1, argv + argc);
    try {
        if (a.size() == 4 && a[0] == "train")
            return train(a[1], std::atoll(argv[3]), std::atoi(argv[4]));
        if (a.size() == 4 && a[0] == "overwrite")
            return overwrite(a[1], std::atoi(argv[3]), std::atoi(argv[4]));
        if (a.size() == 3 && a[0] == "follow") return follow(a[1], std::atoi(argv[3]));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: see cluster_job.cpp\n");
    return 2;
}
