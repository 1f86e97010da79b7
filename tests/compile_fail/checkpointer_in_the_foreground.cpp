// SPDX-License-Identifier: Apache-2.0
// expect: checkpointer: this communicator is not a BackgroundCommunicator
// expect: duplicate\(deadline, completion<itself>\)
#include "foreground_ranks.hpp"

#include <cairn/checkpointer.hpp>

#ifdef BASELINE
using ranks = cairn::solo;
#else
using ranks = foreground_ranks;
#endif

void f(ranks& r) {
    cairn::checkpointer ckpt(r, "ckpt");
}
