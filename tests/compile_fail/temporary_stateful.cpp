// SPDX-License-Identifier: Apache-2.0
// A state dict borrows a Stateful: one that ends with the expression would dangle.
// expect: a Stateful in a state dict is borrowed
#include <cairn/state/state_dict.hpp>

struct run {
    cairn::state_dict state_dict() { return {}; }
    void load_state_dict(const cairn::state_dict&) {}
};

#ifdef BASELINE
cairn::state_dict f(run& r) {
    return {{"app", r}};
}
#else
cairn::state_dict f(run&) {
    return {{"app", run()}};
}
#endif
