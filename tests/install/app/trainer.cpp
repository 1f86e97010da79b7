// SPDX-License-Identifier: Apache-2.0
// A user's program: saves and loads one tensor, and compares.
#include <cairn/cairn.hpp>

#include <vector>

int main() {
    std::vector<float> weights{0.5F, -1.25F, 3.0F};
    cairn::save(cairn::state_dict{{"weights", weights}}, "ckpt/step_1");

    std::vector<float> loaded(weights.size());
    cairn::load(cairn::state_dict{{"weights", loaded}}, "ckpt/step_1");
    return loaded == weights ? 0 : 1;
}
