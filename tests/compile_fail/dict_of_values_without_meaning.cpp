// SPDX-License-Identifier: Apache-2.0
// What a value can hold is as ambiguous as a value: a copy would lose what is loaded.
// expect: a mutable variable is ambiguous
#include <cairn/state/state_dict.hpp>

cairn::state_dict f(cairn::value::dict_t& run) {
#ifdef BASELINE
    return {{"run", cairn::value(run)}, {"was", cairn::per_rank(cairn::value(run))}};
#else
    return {{"run", run}};
#endif
}
