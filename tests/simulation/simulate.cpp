// SPDX-License-Identifier: Apache-2.0
// Whole jobs in one thread, with simulated clocks, network and storage.
//
//     simulate [--seeds N] [--from S] [--ranks N] [--trace]
//     simulate --orders [--ranks N] [--bound B] [--only JOB] [--replay ORDER] [--trace]
//
// The first decides everything by a seed; its last line is `N seeds, M failures`, and a failing
// seed prints its trace, and replays alone with `--from S --seeds 1`. The second runs small jobs in
// every order in which their events can happen; its last line is `N orders, M failures`, and a
// failure prints the ORDER that replays it.
#include "simulate.hpp"

#include "content.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace simulation {
namespace {

int usage() {
    std::fprintf(stderr,
                 "simulate [--seeds N] [--from S] [--ranks N] [--trace]\n"
                 "simulate --orders [--ranks N] [--bound B] [--only JOB] [--replay ORDER] "
                 "[--trace]\n");
    return 2;
}

/// Of eight seeds, three are jobs that save to one place, three are trainings, and one exports.
std::uint64_t run_one(std::uint64_t seed, int ranks, bool trace) {
    if (seed % 8 == 4) return run_export(seed, ranks, trace);
    if (seed % 8 == 0) return run_seed(seed, ranks, trace);
    return seed % 2 == 1 && seed % 8 != 7 ? run_story(seed, ranks, trace)
                                          : run_training(seed, ranks, trace);
}

/// Runs a seed that has failed once more.
void print_trace(std::uint64_t seed, int ranks) {
    try {
        (void)run_one(seed, ranks, true);
    } catch (const std::exception&) {  // as before
    }
}

std::uint64_t run_seeds(std::uint64_t from, std::uint64_t seeds, int ranks, bool trace) {
    std::uint64_t failures = 0;
    for (auto seed = from; seed != from + seeds; ++seed) {
        try {
            auto const first = run_one(seed, ranks, trace);
            // A seed replays: the same events in the same order.
            if (seed == from && seeds > 1)
                require(run_one(seed, ranks, false) == first, "a seed that does not replay");
        } catch (const std::exception& e) {
            ++failures;
            std::printf("FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), e.what());
            std::fflush(stdout);
            if (!trace && failures <= 3) print_trace(seed, ranks);
        }
    }
    std::printf("%llu seeds, %llu failures\n", static_cast<unsigned long long>(seeds),
                static_cast<unsigned long long>(failures));
    return failures;
}

int main_of(int argc, char** argv) {
    std::uint64_t seeds = 100, from = 1;
    int ranks = 0;
    bool all_orders = false;
    order_options orders;
    for (int i = 1; i < argc; ++i) {
        std::string_view const a = argv[i];
        if (a == "--trace") {
            orders.trace = true;
            continue;
        }
        if (a == "--orders") {
            all_orders = true;
            continue;
        }
        if (++i == argc) return usage();
        auto const number = std::strtoull(argv[i], nullptr, 10);
        if (a == "--seeds")
            seeds = number;
        else if (a == "--from")
            from = number;
        else if (a == "--ranks")
            ranks = static_cast<int>(number);
        else if (a == "--bound")
            orders.bound = static_cast<int>(number);
        else if (a == "--only")
            orders.only = argv[i];
        else if (a == "--replay")
            orders.replay = argv[i];
        else
            return usage();
    }
    if (!all_orders) return run_seeds(from, seeds, ranks, orders.trace) == 0 ? 0 : 1;
    if (ranks != 0) orders.ranks = ranks;
    auto const n = run_orders(orders);
    std::printf("%llu orders, %llu failures\n", static_cast<unsigned long long>(n.orders),
                static_cast<unsigned long long>(n.failures));
    return n.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace simulation

int main(int argc, char** argv) {
    // Of the one process that is all simulated ones; the attempts of the others are put around it.
    ::setenv("CAIRN_JOB_ID", "simulated", 1);
    ::setenv("CAIRN_JOB_ATTEMPT", "1000000", 1);
    return simulation::main_of(argc, argv);
}
