// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "verification.hpp"

#include <iostream>

namespace tool {

int verify(const std::string& checkpoint) {
    return verification(cairn::file_store(checkpoint), std::cout).run() ? fine : finding;
}

}  // namespace tool
