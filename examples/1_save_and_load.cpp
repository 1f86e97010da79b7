// SPDX-License-Identifier: Apache-2.0
// Four ranks save one sharded tensor in parallel and load it back in place.
#include <cairn/cairn.hpp>

#include <cstdio>
#include <vector>

int main() {
    int wrong = 0;
    cairn::run_ranks(4, [&](cairn::thread_group::member& ranks) {
        // An 8×3 matrix; this rank holds two rows of it.
        std::vector<float> rows(2 * 3, static_cast<float>(ranks.rank()));
        cairn::sharded_view const weight = cairn::shard_by_mesh(
            cairn::tensor_view(cairn::dtype::float32, {2, 3}, rows.data()), {8, 3},
            cairn::device_mesh::line(4), {cairn::shard_along{0}}, ranks.rank());
        std::int64_t step = 100;
        cairn::state_dict state{{"model", cairn::state_dict{{"weight", weight}}},
                                {"step", std::ref(step)}};

        cairn::save(state, "ckpt/step_100", ranks);

        rows.assign(rows.size(), -1.0f);
        step = 0;
        cairn::load(state, "ckpt/step_100", ranks);
        if (rows[0] != static_cast<float>(ranks.rank()) || step != 100) wrong = 1;
    });
    std::printf(wrong == 0 ? "saved and loaded on 4 ranks\n" : "the load went wrong\n");
    return wrong;
}
