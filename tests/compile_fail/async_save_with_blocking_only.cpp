// SPDX-License-Identifier: Apache-2.0
// expect: async_save: this communicator is for blocking verbs only
// expect: one order of .*launches on all ranks
#include <cairn/save.hpp>

/// As NCCL's group: its exchanges must not run beside the trainer's.
struct ranks : cairn::solo {
#ifndef BASELINE
    static constexpr bool blocking_only = true;
#endif
};

void f(cairn::state_dict& state, ranks& r) {
    cairn::save(state, "there", r);
    cairn::async_save(state, "there", r, [](std::exception_ptr, cairn::save_report) {});
}
