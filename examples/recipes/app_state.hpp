// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_EXAMPLES_RECIPES_APP_STATE_HPP
#define CAIRN_EXAMPLES_RECIPES_APP_STATE_HPP

#include "toy.hpp"

/// What an application saves: a `Stateful`.
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

#endif
