// SPDX-License-Identifier: Apache-2.0
// As outside of per_rank: its value now, or a place to load into? A copy would lose what is loaded.
// expect: a mutable variable is ambiguous
#include <cairn/state/state_dict.hpp>

#include <cstdint>
#include <functional>

cairn::state_dict f(std::int64_t& seed) {
#ifdef BASELINE
    return {{"seed", cairn::per_rank(std::ref(seed))},
            {"was", cairn::per_rank(cairn::value(seed))}};
#else
    return {{"seed", cairn::per_rank(seed)}};
#endif
}
