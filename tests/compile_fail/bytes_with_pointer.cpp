// SPDX-License-Identifier: Apache-2.0
// A pointer means nothing in the process that loads it.
// expect: as_bytes of a pointer
#include <cairn/state/state_dict.hpp>

#include <cstdint>

struct position {
    std::uint64_t at;
#ifdef BASELINE
    std::uint64_t sample;
#else
    const char* sample;
#endif
};

cairn::state_dict f(position& p) {
    return {{"data", cairn::as_bytes(p)}};
}
