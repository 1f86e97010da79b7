// SPDX-License-Identifier: Apache-2.0
// R2, load: a new model and an Adam without any state continue where r1_save stopped, on any number
// of ranks.
//     r2_load [DIR] [RANKS]
#include "toy.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r1";
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 3;
    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::model model(me.rank(), me.size(), 2);
            toy::adam optimizer(model.parameters());

            // Missing moments are created as zeros, laid out as the parameters; nothing is trained.
            auto [model_state, optim_state] = cairn::get_state_dict(model, optimizer);
            cairn::state_dict state{{"model", model_state}, {"optimizer", optim_state}};
            cairn::load(state, dir, me);
            cairn::set_state_dict(model, optimizer, state.at("model").as_dict(),
                                  state.at("optimizer").as_dict());

            int const step = static_cast<int>(optimizer.groups[0].parameters[0].second.step);
            auto const loss = toy::loss_and_gradients(model, step, me);
            optimizer.step();
            if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::printf("%d ranks continued from %s\n", ranks, dir.c_str());
}
