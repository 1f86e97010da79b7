// SPDX-License-Identifier: Apache-2.0
// A mutable vector of bytes, like a number, could mean its value or a place to load into.
// expect: a mutable variable is ambiguous
#include <cairn/state/state_dict.hpp>

#include <cstddef>
#include <functional>
#include <vector>

cairn::state_dict f(std::vector<std::byte>& blob) {
#ifdef BASELINE
    return {{"blob", std::ref(blob)}, {"as_it_is", cairn::value(blob)}};
#else
    return {{"blob", blob}};
#endif
}
