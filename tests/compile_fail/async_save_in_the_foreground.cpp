// SPDX-License-Identifier: Apache-2.0
// expect: async_save: this communicator is not a BackgroundCommunicator
// expect: duplicate\(deadline, completion<itself>\)
#include "foreground_ranks.hpp"

#include <cairn/async_save.hpp>
#include <cairn/save.hpp>

#ifdef BASELINE
using ranks = cairn::solo;
#else
using ranks = foreground_ranks;
#endif

void f(cairn::state_dict& state, foreground_ranks& foreground, ranks& r) {
    cairn::save(state, "there", foreground);
    cairn::async_save(state, "there", r, [](std::exception_ptr, const cairn::pending_save&) {});
}
