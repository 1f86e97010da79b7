// SPDX-License-Identifier: Apache-2.0
// expect: save: two communicators
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>

void f(cairn::state_dict& state) {
    cairn::solo one;
#ifdef BASELINE
    cairn::save(state, "ckpt", one);
#else
    cairn::solo two;
    cairn::save(state, "ckpt", one, two);
#endif
}
