// SPDX-License-Identifier: Apache-2.0
// One save and one load: what a file of a user's costs at the least.
#include <cairn/cairn.hpp>

#include <cstdint>
#include <functional>
#include <vector>

int main() {
    std::vector<float> weights(1000);
    std::int64_t step = 0;
    cairn::state_dict state{{"weights", weights}, {"step", std::ref(step)}};
    cairn::save(state, "ckpt/step_100");
    cairn::load(state, "ckpt/step_100");
}
