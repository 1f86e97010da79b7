// SPDX-License-Identifier: Apache-2.0
// An argument of save that models none of the concepts of a save's parts.
// expect: SavePart
// expect: stranger
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>

struct stranger {};

#ifdef BASELINE
using part = cairn::solo;
#else
using part = stranger;
#endif

void f(cairn::state_dict& state) {
    cairn::save(state, "ckpt", part{});
}
