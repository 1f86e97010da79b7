// SPDX-License-Identifier: Apache-2.0
// R4, Stateful: an application provides its own state. Ten steps, each saved in the background once
// the previous save is complete; then a new application continues from the last one.
//     r4_stateful [DIR] [RANKS]        writes DIR_step0 … DIR_step9
#include "app_state.hpp"

#include <cairn/async_save.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

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
            cairn::pending_save saving;
            for (int step = 0; step < 10; ++step) {
                auto const loss = toy::loss_and_gradients(model, step, me);
                optimizer.step();
                if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
                if (saving) saving.wait();
                saving = cairn::async_save(state, dir + "_step" + std::to_string(step), me,
                                           boost::asio::use_future)
                             .get();
            }
            saving.wait();
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
