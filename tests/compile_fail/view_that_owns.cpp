// SPDX-License-Identifier: Apache-2.0
// A view that does not say that it is borrowed may own its elements, which would end with it.
// expect: a temporary range that may own its elements
#include <cairn/state/state_dict.hpp>

#include <ranges>
#include <utility>
#include <vector>

struct tensors : std::ranges::view_base {
    auto begin() { return all.begin(); }
    auto end() { return all.end(); }

    std::vector<std::vector<float>> all{};
};

cairn::state_dict f(tensors& t) {
#ifdef BASELINE
    return {{"experts", t}};
#else
    return {{"experts", std::move(t)}};
#endif
}
