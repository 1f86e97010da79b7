// SPDX-License-Identifier: Apache-2.0
// A mutable scalar could mean its value now or a place to load into.
// expect: a mutable variable is ambiguous
#include <cairn/state/state_dict.hpp>

#include <cstdint>
#include <functional>

cairn::state_dict f(std::int64_t& step) {
#ifdef BASELINE
    return {{"step", std::ref(step)}, {"epoch", cairn::value(step)}};
#else
    return {{"step", step}};
#endif
}
