// SPDX-License-Identifier: Apache-2.0
// Ranks save one sharded tensor in parallel and load it back in place. The ranks are four threads,
// or the processes of a launcher (cairn launch -n 8 -- 1_save_and_load).
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <atomic>
#include <cstdio>
#include <vector>

int main() {
    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(4, [&](cairn::any_communicator& ranks) {
        // This rank holds two rows of a matrix with three columns.
        int const n = ranks.size();
        std::vector<float> rows(2 * 3, static_cast<float>(ranks.rank()));
        cairn::sharded_view const weight = cairn::shard_by_mesh(
            cairn::tensor_view(cairn::dtype::float32, {2, 3}, rows.data()), {2 * n, 3},
            cairn::device_mesh::line(n), {cairn::shard_along{0}}, ranks.rank());
        std::int64_t step = 100;
        cairn::state_dict state{{"model", cairn::state_dict{{"weight", weight}}},
                                {"step", std::ref(step)}};

        cairn::save(state, "ckpt/step_100", ranks);

        rows.assign(rows.size(), -1.0f);
        step = 0;
        cairn::load(state, "ckpt/step_100", ranks);
        if (rows[0] != static_cast<float>(ranks.rank()) || step != 100) ++wrong;
        if (ranks.rank() == 0) std::printf("saved and loaded on %d ranks\n", n);
    });
    if (wrong != 0) std::printf("the loaded state differs\n");
    return wrong != 0;
}
