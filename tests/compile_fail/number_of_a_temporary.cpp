// SPDX-License-Identifier: Apache-2.0
// What is loaded into a temporary is lost, and its tensor outlives it.
// expect: deleted function
#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/host_tensor.hpp>

#include <cstdint>

cairn::state_dict f(std::int64_t& step) {
#ifdef BASELINE
    return {{"step", cairn::converted<float>(step)}};
#else
    return {{"step", cairn::scalar_tensor(static_cast<float>(step))}};
#endif
}
