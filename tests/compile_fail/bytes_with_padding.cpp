// SPDX-License-Identifier: Apache-2.0
// Padding has indeterminate bytes: equal states would be saved as different bytes.
// expect: as_bytes of a type with padding
#include <cairn/state/state_dict.hpp>

struct scaler {
    double scale;
    int good_steps;
#ifdef BASELINE
    int unused = 0;
#endif
};

cairn::state_dict f(scaler& s) {
    return {{"scaler", cairn::as_bytes(s)}};
}
