// SPDX-License-Identifier: Apache-2.0
// One process, without a communicator: a trainer that provides its own state. (If there are several
// processes, each passes its communicator to save and load.)
#include <cairn/cairn.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct trainer {
    std::map<std::string, std::vector<float>> parameters{{"weight", {1, 2, 3}}, {"bias", {4}}};
    std::int64_t step = 7;
    std::string run = "baseline";

    cairn::state_dict state_dict() {
        return {{"model", parameters}, {"step", std::ref(step)}, {"run", std::ref(run)}};
    }
    void load_state_dict(const cairn::state_dict&) { ++told; }
    int told = 0;
};

int main() {
    trainer t;
    cairn::save(t, "ckpt/one_process");

    trainer fresh{{{"weight", {0, 0, 0}}, {"bias", {0}}}, 0, ""};
    cairn::load(fresh, "ckpt/one_process");
    bool const ok = fresh.parameters == t.parameters && fresh.step == 7 &&
                    fresh.run == "baseline" && fresh.told == 1;
    std::printf("one process: %s\n", ok ? "as saved" : "something differs");
    return ok ? 0 : 1;
}
