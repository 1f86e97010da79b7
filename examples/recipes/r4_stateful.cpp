// SPDX-License-Identifier: Apache-2.0
// R4, Stateful: an application provides its state; ten steps, each with a checkpoint of its own,
// then a fresh application continues from the last.
//     r4_stateful [DIR] [RANKS]        writes DIR_step0 … DIR_step9
#include "toy.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

struct app_state {
    toy::model& model;
    toy::adam& optimizer;

    cairn::state_dict state_dict() {
        auto [model_state, optim_state] = cairn::get_state_dict(model, optimizer);
        return {{"model", model_state}, {"optim", optim_state}};
    }
    void load_state_dict(const cairn::state_dict& d) {
        cairn::set_state_dict(model, optimizer, d.at("model").as_dict(), d.at("optim").as_dict());
    }
};

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r4";
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 4;
    float last = 0, again = 1;
    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::model model(me.rank(), me.size());
            toy::adam optimizer(model.parameters());
            app_state app{model, optimizer};
            cairn::state_dict state{{"app", app}};
            for (int step = 0; step < 10; ++step) {
                auto const loss = toy::loss_and_gradients(model, step, me);
                optimizer.step();
                if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
                cairn::save(state, dir + "_step" + std::to_string(step), me);
            }
            auto const next = toy::loss_and_gradients(model, 10, me);

            toy::model fresh_model(me.rank(), me.size(), 2);
            toy::adam fresh_optimizer(fresh_model.parameters());
            app_state fresh{fresh_model, fresh_optimizer};
            cairn::state_dict loaded{{"app", fresh}};
            cairn::load(loaded, dir + "_step9", me);
            auto const resumed = toy::loss_and_gradients(fresh_model, 10, me);
            if (me.rank() == 0) last = next, again = resumed;
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::printf("step 10 loss %.9g, resumed %.9g\n", double{last}, double{again});
    return last == again ? 0 : 1;
}
