// SPDX-License-Identifier: Apache-2.0
// ToyModel and Adam, sharded over threads as in FSDP; continues what cairn or PyTorch saved:
//     train [--load CKPT] --save CKPT --steps K [--ranks N]
#include "toy.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    std::string load, save;
    int steps = 1, ranks = 4;
    CLI::App cli(
        "Trains ToyModel from the start, or from a checkpoint that cairn or PyTorch saved.");
    cli.add_option("--load", load, "the checkpoint to continue from");
    cli.add_option("--save", save, "the checkpoint to write")->required();
    cli.add_option("--steps", steps, "steps to train; 0: saves what was loaded");
    cli.add_option("--ranks", ranks, "the number of ranks, which are threads")
        ->check(CLI::PositiveNumber);
    CLI11_PARSE(cli, argc, argv);

    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::model model(me.rank(), me.size());
            toy::adam optimizer(model.parameters());
            auto const state = [&] {
                auto [m, o] = cairn::get_state_dict(model, optimizer);
                return cairn::state_dict{{"model", m}, {"optimizer", o}};
            };
            if (!load.empty()) {
                auto all = state();
                cairn::load(all, load, me);
                cairn::set_state_dict(model, optimizer, all.at("model").as_dict(),
                                      all.at("optimizer").as_dict());
            }
            for (int i = 0; i < steps; ++i) {
                int const step = static_cast<int>(optimizer.groups[0].parameters[0].second.step);
                auto const loss = toy::loss_and_gradients(model, step, me);
                optimizer.step();
                if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
            }
            cairn::save(state(), save, me);
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
