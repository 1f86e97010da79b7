// SPDX-License-Identifier: Apache-2.0
// Measures the planning of a load: n stored chunks against m wanted boxes of one tensor. It should
// take O((n + m) log (n + m)) plus the pairs that overlap; the last line of each family has
// the fit.
#include <cairn/planner/reshard.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

constexpr std::int64_t rows = std::int64_t{1} << 24, columns = 64;

/// `n` boxes that split the tensor along dimension 0 as evenly as integers allow.
std::vector<cairn::box> rows_over(std::int64_t n) {
    std::vector<cairn::box> out;
    for (std::int64_t i = 0; i < n; ++i) {
        auto const begin = rows * i / n, end = rows * (i + 1) / n;
        out.push_back({{begin, 0}, {end - begin, columns}});
    }
    return out;
}
cairn::chunk_list stored(const std::vector<cairn::box>& boxes) {
    cairn::chunk_list out;
    for (auto const& b : boxes) out.push_back({b, {}});
    return out;
}

void plan(benchmark::State& state, const cairn::chunk_list& have,
          const std::vector<cairn::box>& want) {
    std::size_t items = 0;
    for (auto _ : state) {
        auto plan = cairn::create_read_items("model.weight", 0, have, want);
        items = plan.size();
        benchmark::DoNotOptimize(plan.data());
    }
    if (items < want.size()) state.SkipWithError("a wanted box was left without data");
    state.counters["items"] = static_cast<double>(items);
    state.SetComplexityN(static_cast<std::int64_t>(have.size() + want.size()));
}

/// All boxes of a job of a different size, at once: n chunks onto about 3 n / 4 boxes.
void other_number_of_ranks(benchmark::State& state) {
    auto const n = state.range(0);
    plan(state, stored(rows_over(n)), rows_over(3 * n / 4));
}

/// One rank's share: one box among n chunks.
void one_box(benchmark::State& state) {
    auto const n = state.range(0);
    plan(state, stored(rows_over(n)), {rows_over(n / 4)[1]});
}

BENCHMARK(other_number_of_ranks)
    ->RangeMultiplier(4)
    ->Range(64, 65536)
    ->Complexity(benchmark::oNLogN)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(one_box)
    ->RangeMultiplier(4)
    ->Range(64, 65536)
    ->Complexity(benchmark::oNLogN)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
