// SPDX-License-Identifier: Apache-2.0
// A dict of values can be saved, but a load could only fill a copy of it.
// expect: a load cannot set this through std::ref
#include <cairn/state/state_dict.hpp>

#include <functional>

cairn::state_dict f(cairn::value::dict_t& d) {
#ifdef BASELINE
    return {{"d", std::cref(d)}};
#else
    return {{"d", std::ref(d)}};
#endif
}
