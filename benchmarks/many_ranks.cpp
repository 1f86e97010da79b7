// SPDX-License-Identifier: Apache-2.0
// Measures the control plane of a save at scale: plans of ITEMS items each are gathered from all
// ranks, and scattered to them, by the code that groups of processes run, with messages handed over
// in memory. One line for each number of ranks: CPU time of all ranks together, frames, bytes.
//
//     many_ranks [ITEMS] [RANKS...]
#include "support/tree_world.hpp"

#include <cairn/planner/plan_codec.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

cairn::message plan_of(int rank, int items) {
    cairn::save_plan p;
    for (int i = 0; i < items; ++i) {
        cairn::write_item w;
        w.fqn = "model.layers." + std::to_string(i / 12) + ".block." + std::to_string(i % 12) +
                ".weight";
        w.kind = cairn::item_kind::shard;
        w.type = cairn::dtype::bfloat16;
        w.global_shape = {std::int64_t{4096} * 4096, 4096};
        w.region = cairn::box({std::int64_t{4096} * rank, 0}, {4096, 4096});
        p.items.push_back(std::move(w));
    }
    return cairn::encode_save_plan(p);
}

std::vector<cairn::message> one(cairn::message m) {
    std::vector<cairn::message> v;
    v.push_back(std::move(m));
    return v;
}

}  // namespace

int main(int argc, char** argv) {
    int const items = argc > 1 ? std::atoi(argv[1]) : 1000;
    std::vector<int> sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
    if (sizes.empty()) sizes = {16, 64, 256, 1024, 4096};
    std::printf("%6s %6s %9s %11s %11s %9s %9s\n", "ranks", "items", "depth", "gather s",
                "scatter s", "frames", "MB");
    for (int n : sizes) {
        using kind = support::tree_world::kind;
        support::tree_world w(n, 32);
        w.through_bytes = false;
        auto const seconds = [](auto f) {
            auto const start = std::chrono::steady_clock::now();
            f();
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        };
        std::vector<cairn::message> plans;
        for (int r = 0; r < n; ++r) plans.push_back(plan_of(r, items));
        double const gather = seconds([&] {
            for (int r = 0; r < n; ++r)
                w.call(r, kind::gather, 0, one(plans[static_cast<std::size_t>(r)]));
            w.settle();
        });
        double const scatter = seconds([&] {
            for (int r = 0; r < n; ++r)
                w.call(r, kind::scatter, 0, r == 0 ? plans : std::vector<cairn::message>());
            w.settle();
        });
        bool ok = true;
        for (int r = 0; r < n; ++r) {
            auto const& o = w.outcome_of(r);
            ok = ok && o && !o->failure && o->result == one(plans[static_cast<std::size_t>(r)]);
        }
        std::printf("%6d %6d %9d %11.3f %11.3f %9llu %9.1f%s\n", n, items, w.depth(), gather,
                    scatter, static_cast<unsigned long long>(w.frames),
                    static_cast<double>(w.bytes) / 1e6, ok ? "" : "   WRONG");
        if (!ok) return 1;
    }
}
