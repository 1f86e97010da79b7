// SPDX-License-Identifier: Apache-2.0
// expect: async_load: .*this data plane not a BackgroundDataPlane
#include "foreground_ranks.hpp"

#include <cairn/async_load.hpp>
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/load.hpp>

#ifdef BASELINE
using ranks = cairn::solo;
#else
using ranks = foreground_ranks;
#endif

void f(cairn::state_dict& state, cairn::solo& background, ranks& r) {
    cairn::communicator_data_plane plane(r);
    cairn::load(state, "there", background, plane);
    cairn::async_load(state, "there", background, plane,
                      [](std::exception_ptr, cairn::load_report) {});
}
