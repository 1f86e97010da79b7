// SPDX-License-Identifier: Apache-2.0
// A matrix is saved as rows on four ranks and loaded as columns on three: a checkpoint can be
// loaded in any layout. Under a launcher, its processes save rows and then load columns.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <atomic>
#include <cstdio>
#include <vector>

namespace {

/// A rank's shard of a 12×10 matrix split along one dimension.
struct rank_shard {
    std::vector<double> memory;
    cairn::sharded_view view{{12, 10}, cairn::dtype::float64, {}};

    rank_shard(int dim, int rank, int ranks) {
        // One box, or none if there are more ranks than rows or columns.
        for (auto const& box : boxes_of(view.global_shape, cairn::device_mesh::line(ranks),
                                        {cairn::shard_along{dim}}, rank)) {
            memory.resize(static_cast<std::size_t>(box.volume()));
            cairn::tensor_view const local(cairn::dtype::float64, box.shape, memory.data());
            view.shards.push_back(cairn::shard(box, local));
        }
    }
    /// Calls `f` for each element held, with its expected value: 100 i + j for element (i, j).
    template <class F>
    void each(F&& f) {
        for (auto const& s : view.shards) {
            auto const& where = s.region;
            std::size_t k = 0;
            for (auto i = where.offsets[0]; i < where.end(0); ++i)
                for (auto j = where.offsets[1]; j < where.end(1); ++j)
                    f(memory[k++], static_cast<double>(100 * i + j));
        }
    }
};

}  // namespace

int main() {
    std::atomic<int> saved_by{0}, loaded_by{0}, wrong{0};
    cairn::run_launched_ranks(4, [&](cairn::any_communicator& ranks) {
        rank_shard rows(0, ranks.rank(), ranks.size());
        rows.each([](double& x, double want) { x = want; });
        cairn::state_dict state{{"matrix", rows.view}};
        cairn::save(state, "ckpt/reshard", ranks);
        saved_by = ranks.size();
    });
    cairn::run_launched_ranks(3, [&](cairn::any_communicator& ranks) {
        rank_shard columns(1, ranks.rank(), ranks.size());
        cairn::state_dict state{{"matrix", columns.view}};
        cairn::load(state, "ckpt/reshard", ranks);
        columns.each([&](double& x, double want) { wrong += x != want; });
        loaded_by = ranks.size();
    });
    std::printf("rows on %d ranks, columns on %d: %d elements wrong\n", saved_by.load(),
                loaded_by.load(), wrong.load());
    return wrong != 0;
}
