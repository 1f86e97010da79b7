// SPDX-License-Identifier: Apache-2.0
// expect: checkpointer_options::every: give cairn::steps\(n\)
// expect: a number alone has no unit
// at most 20 lines
#include <cairn/checkpointer/options.hpp>

cairn::checkpointer_options f() {
#ifdef BASELINE
    return {.every = cairn::steps(20)};
#else
    return {.every = 20};
#endif
}
