// SPDX-License-Identifier: Apache-2.0
// R6, one after the other: model and optimizer are saved in one checkpoint; then the model is
// loaded alone, and after it the optimizer, with the layout of the model's shards.
//     r6_model_then_optimizer [DIR] [RANKS]
#include "toy.hpp"

#include <cairn/comm/launched_ranks.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

/// Gathers parameters and moments on all ranks; rank 0 prints them.
std::map<std::string, cairn::host_tensor> show(const char* when, toy::linear& model,
                                               toy::adam& optimizer, auto& me) {
    std::map<std::string, cairn::host_tensor> all;
    {
        cairn::full_params whole(model, me, false);
        for (auto& [fqn, t] : whole) all.emplace(fqn, t);
    }
    for (auto& [p, m] : optimizer.groups[0].parameters) {
        std::string const fqn = p == &model.weight ? "weight" : "bias";
        all.emplace(fqn + ".exp_avg", cairn::full_tensor(m.exp_avg, me));
        all.emplace(fqn + ".exp_avg_sq", cairn::full_tensor(m.exp_avg_sq, me));
    }
    if (me.rank() != 0) return all;
    std::printf("%s\n", when);
    for (auto const& [name, t] : all) {
        std::printf("  %s", name.c_str());
        for (float x : t.template as<float>()) std::printf(" %.4g", double{x});
        std::printf("\n");
    }
    return all;
}

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r6";
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 4;
    bool same = false;
    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::linear model(4, 4);
            toy::shard_flat(model.parameters(), me.rank(), me.size(), 1);
            toy::adam optimizer(model.parameters());
            toy::loss_and_gradients(model, 0, me);
            optimizer.step();
            auto [model_state, optim_state] = cairn::get_state_dict(model, optimizer);
            cairn::state_dict state{{"model", model_state}, {"optim", optim_state}};
            cairn::save(state, dir, me);
            auto const saved = show("saved", model, optimizer, me);

            toy::linear second(4, 4);
            toy::shard_flat(second.parameters(), me.rank(), me.size(), 2);
            toy::adam adam(second.parameters());
            adam.make_missing_moments();
            show("a second model, before", second, adam, me);

            auto const parameters = cairn::get_model_state_dict(second);
            cairn::state_dict only_model{{"model", parameters}};
            cairn::load(only_model, dir, me);
            auto const only_optim =
                cairn::load_sharded_optimizer_state_dict(parameters, "optim", dir, me);
            cairn::set_optimizer_state_dict(second, adam, only_optim.at("optim").as_dict());
            auto const loaded = show("and after", second, adam, me);
            if (me.rank() == 0) same = loaded == saved;
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return same ? 0 : 1;
}
