// SPDX-License-Identifier: Apache-2.0
// A format of your own: one raw file per rank, and a JSON index that says what is where.
//
// Saving is planned by cairn as always; own_storage.hpp says only how bytes lie on the disk.
// Loading is kept simple: the same boxes that were saved, no re-sharding.
#include "own_storage.hpp"

#include <boost/json/src.hpp>  // header-only use of Boost.JSON: in one source file of a program

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

int main() {
    constexpr int n = 3;
    std::filesystem::remove_all("ckpt/own_storage");
    std::vector<call_log> saved(n), loaded(n);
    std::vector<int> wrong_ranks(n, 0);
    cairn::run_ranks(n, [&](cairn::thread_group::member& ranks) {
        auto const rank = static_cast<std::size_t>(ranks.rank());
        std::vector<float> rows(2 * 4, static_cast<float>(rank));
        std::int64_t step = 100;
        cairn::state_dict state{
            {"weight", cairn::shard_by_mesh(
                           cairn::tensor_view(cairn::dtype::float32, {2, 4}, rows.data()), {6, 4},
                           cairn::device_mesh::line(n), {cairn::shard_along{0}}, ranks.rank())},
            {"step", std::ref(step)}};
        auto const name = [](int r, const std::string& save_id) {
            return "part_" + std::to_string(r) + "_" + save_id + ".raw";
        };
        cairn::save(state, "ckpt/own_storage", ranks, raw_writer(name, saved[rank]));

        rows.assign(rows.size(), -1.0f);
        step = 0;
        cairn::load(state, "ckpt/own_storage", ranks, raw_reader(loaded[rank]));
        wrong_ranks[rank] =
            rows != std::vector<float>(rows.size(), static_cast<float>(rank)) || step != 100;
    });

    auto const print = [](const char* title, const call_log& log) {
        std::printf("%s:", title);
        for (auto const& call : log) std::printf(" %s;", call.c_str());
        std::printf("\n");
    };
    print("save, coordinator", saved[0]);
    print("save, other ranks", saved[1]);
    print("load, coordinator", loaded[0]);

    // The order of the protocol; the coordinator alone plans for all and finishes.
    call_log const coordinator{"reset", "set up", "prepare local", "prepare global",
                               "write", "finish"};
    call_log const other{"reset", "set up", "prepare local", "write"};
    int bad = saved[0] != coordinator || saved[1] != other || saved[2] != other;
    for (int w : wrong_ranks) bad += w;
    int files = 0;
    for (auto const& f : std::filesystem::directory_iterator("ckpt/own_storage"))
        files += f.path().extension() == ".raw";
    bad += files != n;
    std::printf("own storage: %s\n", bad == 0 ? "as saved, in the promised order" : "went wrong");
    return bad != 0;
}
