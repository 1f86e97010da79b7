// SPDX-License-Identifier: Apache-2.0
// R1, save: one training step on every rank, then model and optimizer as one checkpoint.
//     r1_save [DIR] [RANKS]
#include "toy.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r1";
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 4;
    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::model model(me.rank(), me.size());
            toy::adam optimizer(model.parameters());
            auto const loss = toy::loss_and_gradients(model, 0, me);
            optimizer.step();

            auto [model_state, optim_state] = cairn::get_state_dict(model, optimizer);
            cairn::state_dict state{{"model", model_state}, {"optimizer", optim_state}};
            cairn::save(state, dir, me);
            if (me.rank() == 0) std::printf("loss %.9g\n", double{loss});
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::printf("%d ranks saved model and optimizer in %s\n", ranks, dir.c_str());
}
