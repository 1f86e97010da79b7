// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: the launcher provides rank and size.
//     cairn launch -n 4 -- 9_processes        (or torchrun, mpirun, srun)
#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <cstdio>
#include <vector>

int main() {
    try {
        auto ranks = cairn::tcp_group::from_environment();
        // This rank holds two rows of a matrix that has two rows for each rank.
        std::vector<float> rows(2 * 3, static_cast<float>(ranks.rank()));
        cairn::sharded_view const weight = cairn::shard_by_mesh(
            cairn::tensor_view(cairn::dtype::float32, {2, 3}, rows.data()), {2 * ranks.size(), 3},
            cairn::device_mesh::line(ranks.size()), {cairn::shard_along{0}}, ranks.rank());
        cairn::state_dict state{{"weight", weight}};

        cairn::save(state, "ckpt/processes", ranks);
        rows.assign(rows.size(), -1.0f);
        cairn::load(state, "ckpt/processes", ranks);

        bool const right = rows == std::vector<float>(6, static_cast<float>(ranks.rank()));
        std::printf("rank %d of %d: %s\n", ranks.rank(), ranks.size(),
                    right ? "saved and loaded" : "wrong");
        return right ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
