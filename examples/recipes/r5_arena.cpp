// SPDX-License-Identifier: Apache-2.0
// R5, like R4, with memory that is kept: the copies of ten steps use one arena. No save waits for
// the previous one; each has its own copy, so the arena may grow to the size of ten copies.
//     r5_arena [DIR] [RANKS]        writes DIR_step0 … DIR_step9
#include "app_state.hpp"

#include <cairn/async_save.hpp>
#include <cairn/comm/launched_ranks.hpp>
#include <cairn/memory/arena.hpp>

#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r5";
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 4;
    float last = 0, again = 1;
    try {
        cairn::run_launched_ranks(ranks, [&](auto& me) {
            toy::model model(me.rank(), me.size());
            toy::adam optimizer(model.parameters());
            app_state app{model, optimizer};
            cairn::state_dict state{{"app", app}};
            cairn::staging_arena arena;
            std::vector<cairn::pending_save> saves;
            for (int step = 0; step < 10; ++step) {
                auto const loss = toy::loss_and_gradients(model, step, me);
                optimizer.step();
                if (me.rank() == 0) std::printf("step %d loss %.9g\n", step, double{loss});
                saves.push_back(cairn::async_save(state, dir + "_step" + std::to_string(step), me,
                                                  arena, boost::asio::use_future)
                                    .get());
            }
            for (auto& s : saves) s.wait();
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
