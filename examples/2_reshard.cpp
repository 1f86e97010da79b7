// SPDX-License-Identifier: Apache-2.0
// Saved as rows on four ranks, loaded as columns on three: the layout of a checkpoint binds nobody.
#include <cairn/cairn.hpp>

#include <cstdio>
#include <vector>

namespace {

/// What a rank holds of a 8×6 matrix along one dimension.
struct part {
    std::vector<double> memory;
    cairn::sharded_view view;

    part(int dim, int rank, int ranks) {
        auto const box =
            boxes_of({8, 6}, cairn::device_mesh::line(ranks), {cairn::shard_along{dim}}, rank)
                .at(0);
        memory.resize(static_cast<std::size_t>(box.volume()));
        cairn::tensor_view const local(cairn::dtype::float64, box.lengths, memory.data());
        view = {{8, 6}, cairn::dtype::float64, {cairn::shard(box, local)}};
    }
    /// The matrix's element (i, j) is 10 i + j.
    double& at(std::int64_t i, std::int64_t j) {
        auto const& where = view.shards[0].where;
        return memory[static_cast<std::size_t>((i - where.offsets[0]) * where.lengths[1] + j -
                                               where.offsets[1])];
    }
    template <class F>
    void each(F&& f) {
        auto const& where = view.shards[0].where;
        for (auto i = where.offsets[0]; i < where.end(0); ++i)
            for (auto j = where.offsets[1]; j < where.end(1); ++j)
                f(at(i, j), static_cast<double>(10 * i + j));
    }
};

}  // namespace

int main() {
    cairn::run_ranks(4, [](cairn::thread_group::member& ranks) {
        part rows(0, ranks.rank(), ranks.size());
        rows.each([](double& x, double want) { x = want; });
        cairn::state_dict state{{"matrix", rows.view}};
        cairn::save(state, "ckpt/reshard", ranks);
    });
    int wrong = 0;
    cairn::run_ranks(3, [&](cairn::thread_group::member& ranks) {
        part columns(1, ranks.rank(), ranks.size());
        cairn::state_dict state{{"matrix", columns.view}};
        cairn::load(state, "ckpt/reshard", ranks);
        columns.each([&](double& x, double want) { wrong += x != want; });
    });
    std::printf("rows on 4 ranks, columns on 3: %d elements wrong\n", wrong);
    return wrong != 0;
}
