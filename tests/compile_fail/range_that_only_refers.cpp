// SPDX-License-Identifier: Apache-2.0
// The elements of a temporary that only refers to them are somebody else's, not to be moved out.
// expect: a temporary range that may own its elements
#include <cairn/state/state_dict.hpp>

#include <string>
#include <utility>
#include <vector>

using named = std::vector<std::pair<std::string, std::vector<float>>>;

struct parameter_range {
    auto begin() const { return of->begin(); }
    auto end() const { return of->end(); }

    named* of = nullptr;
};

cairn::state_dict f(named& parameters) {
    parameter_range const range{&parameters};
#ifdef BASELINE
    return {{"model", range}, {"copy", named(parameters)}};
#else
    return {{"model", parameter_range(range)}};
#endif
}
