// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_SCENARIOS_HPP
#define CAIRN_TEST_CRASH_SCENARIOS_HPP

#include "recording.hpp"

#include <string>
#include <vector>

namespace crash {

/// What is there, and who saves.
struct scenario {
    std::string name{};
    image before{};
    std::vector<saving> jobs{};

    static std::vector<scenario> all();
    static scenario named(const std::string& name);
};

}  // namespace crash

#endif
