// SPDX-License-Identifier: Apache-2.0
// Header-only, in a program whose other file links the compiled library.
#include <cairn/state/state_dict.hpp>

#ifdef CAIRN_SEPARATE_COMPILATION
#error this file is to be header-only
#endif

#include <cstdint>
#include <functional>

const void* header_only_category() {
    return &cairn::category();
}

cairn::state_dict header_only_state(std::int64_t& step) {
    return {{"step", std::ref(step)}, {"epoch", cairn::value(std::int64_t{3})}};
}
