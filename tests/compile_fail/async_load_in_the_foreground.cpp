// SPDX-License-Identifier: Apache-2.0
// expect: async_load: this communicator is not a BackgroundCommunicator
// expect: duplicate\(deadline, completion<itself>\)
#include "foreground_ranks.hpp"

#include <cairn/async_load.hpp>
#include <cairn/load.hpp>

#ifdef BASELINE
using ranks = cairn::solo;
#else
using ranks = foreground_ranks;
#endif

void f(cairn::state_dict& state, foreground_ranks& foreground, ranks& r) {
    cairn::load(state, "there", foreground);
    cairn::async_load(state, "there", r, [](std::exception_ptr, cairn::load_report) {});
}
