// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <cairn/catalog/detail/verification.hpp>

#include <iostream>

namespace tool {

int verify(const std::string& checkpoint) {
    cairn::detail::verification v{cairn::file_store(checkpoint)};
    bool const whole = v.run();
    v.print(std::cout);
    return whole ? fine : finding;
}

}  // namespace tool
