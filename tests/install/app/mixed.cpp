// SPDX-License-Identifier: Apache-2.0
// Uses what a file that is compiled header-only has made: there is one of each of the two.
#include <cairn/cairn.hpp>

#ifndef CAIRN_SEPARATE_COMPILATION
#error this file is to use the compiled library
#endif

#include <cstdint>

const void* header_only_category();
cairn::state_dict header_only_state(std::int64_t& step);

int main() {
    std::int64_t step = 7;
    auto state = header_only_state(step);
    cairn::save(state, "ckpt/mixed");
    step = 0;
    cairn::load(state, "ckpt/mixed");
    if (step != 7 || !state.contains("epoch")) return 1;  // found by a hash with the same seed
    return header_only_category() == &cairn::category() ? 0 : 2;
}
