// SPDX-License-Identifier: Apache-2.0
// A format of your own: each array in a raw file, and a JSON index of what they are.
//
// Saving is planned by cairn as usual; own_storage.hpp only defines the bytes on disk. For loading
// it only says what is where: `chunk_reader` reads it, here in another layout than it was saved in.
#include "own_storage.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <boost/json/src.hpp>  // header-only use of Boost.JSON: in one source file of a program

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

int main() {
    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(3, [&](cairn::any_communicator& ranks) {
        int const n = ranks.size();
        auto const me = static_cast<float>(ranks.rank());
        std::vector<float> rows(2 * 4, me);
        std::int64_t step = 100;
        cairn::state_dict state{
            {"weight",
             cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::float32, {2, 4}, rows.data()),
                                  {2 * n, 4}, cairn::device_mesh::line(n), {cairn::shard_along{0}},
                                  ranks.rank())},
            {"step", std::ref(step)}};
        auto const name = [](int r, const std::string& save_id) {
            return "rank_" + std::to_string(r) + "_" + save_id;
        };
        call_log saved;
        cairn::save(state, "ckpt/own_storage", ranks, raw_writer(name, saved));

        // Each rank loads all rows.
        std::vector<float> all(static_cast<std::size_t>(2 * n * 4));
        step = 0;
        state["weight"] = cairn::tensor_view(cairn::dtype::float32, {2 * n, 4}, all.data());
        cairn::load(state, "ckpt/own_storage", ranks, raw_reader());
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all[i] != static_cast<float>(i / 8)) ++wrong;
        if (step != 100) ++wrong;

        // The protocol's order of calls; only the coordinator plans for all, finishes and sweeps.
        auto const expected = ranks.rank() == 0
                                  ? call_log{"reset", "set up", "prepare local", "prepare global",
                                             "write", "finish", "sweep"}
                                  : call_log{"reset", "set up", "prepare local", "write"};
        if (saved != expected) ++wrong;
        if (ranks.rank() != 0) return;
        std::printf("save, coordinator:");
        for (auto const& call : saved) std::printf(" %s;", call.c_str());
        std::printf("\n");
    });
    std::printf("own storage: %s\n", wrong == 0 ? "as saved, in the promised order" : "went wrong");
    return wrong != 0;
}
