// SPDX-License-Identifier: Apache-2.0
// C++'s turn of the recipes whose state has other keys than `train`'s:
//     turns app|apart --load CKPT --save CKPT --steps K [--ranks N]
//     turns model --load CKPT --save CKPT
// `app` is R4's Stateful; `apart` R6's, a layer of 4×4, model first and optimizer after; `model` is
// R3's: one process without a group, the model alone.
#include "toy.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>

namespace {

struct app_state {
    toy::model& model;
    toy::adam& optimizer;

    cairn::state_dict state_dict() {
        auto [m, o] = cairn::get_state_dict(model, optimizer);
        return {{"model", m}, {"optim", o}};
    }
    void load_state_dict(const cairn::state_dict& d) {
        cairn::set_state_dict(model, optimizer, d.at("model").as_dict(), d.at("optim").as_dict());
    }
};

void train(auto& model, toy::adam& optimizer, int steps, auto& me) {
    for (int i = 0; i < steps; ++i) {
        int const step = static_cast<int>(optimizer.groups[0].parameters[0].second.step);
        auto const loss = toy::loss_and_gradients(model, step, me);
        optimizer.step();
        if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
    }
}

void app(const std::string& load, const std::string& save, int steps, auto& me) {
    toy::model model(me.rank(), me.size());
    toy::adam optimizer(model.parameters());
    app_state both{model, optimizer};
    cairn::state_dict state{{"app", both}};
    if (!load.empty()) cairn::load(state, load, me);
    train(model, optimizer, steps, me);
    cairn::save(state, save, me);
}

void apart(const std::string& load, const std::string& save, int steps, auto& me) {
    toy::linear model(4, 4);
    toy::shard_flat(model.parameters(), me.rank(), me.size(), 1);
    toy::adam optimizer(model.parameters());
    if (!load.empty()) {
        auto const parameters = cairn::get_model_state_dict(model);
        cairn::state_dict only_model{{"model", parameters}};
        cairn::load(only_model, load, me);
        auto const optim = cairn::load_sharded_optimizer_state_dict(parameters, "optim", load, me);
        cairn::set_optimizer_state_dict(model, optimizer, optim.at("optim").as_dict());
    }
    train(model, optimizer, steps, me);
    auto [m, o] = cairn::get_state_dict(model, optimizer);
    cairn::state_dict all{{"model", m}, {"optim", o}};
    cairn::save(all, save, me);
}

}  // namespace

int main(int argc, char** argv) {
    std::string recipe, load, save;
    int steps = 0, ranks = 4;
    CLI::App cli("C++'s turn.");
    cli.add_option("recipe", recipe)->required()->check(CLI::IsMember({"app", "apart", "model"}));
    cli.add_option("--load", load, "the checkpoint to go on from");
    cli.add_option("--save", save, "the checkpoint to write")->required();
    cli.add_option("--steps", steps, "steps to train; 0 saves what was loaded");
    cli.add_option("--ranks", ranks, "threads as ranks")->check(CLI::PositiveNumber);
    CLI11_PARSE(cli, argc, argv);

    try {
        if (recipe == "model") {
            toy::model model;
            cairn::state_dict state{{"model", cairn::get_model_state_dict(model)}};
            cairn::load(state, load);
            cairn::save(state, save);
            return 0;
        }
        cairn::run_ranks(ranks, [&](auto& me) {
            if (recipe == "app")
                app(load, save, steps, me);
            else
                apart(load, save, steps, me);
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
