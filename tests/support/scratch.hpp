// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SCRATCH_HPP
#define CAIRN_TEST_SUPPORT_SCRATCH_HPP

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace support {

/// A directory of one test's own, removed at the end.
struct scratch {
    std::filesystem::path dir{};

    scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "cairn-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory: " + name);
        dir = name;
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(dir, ignored);
    }
};

}  // namespace support

#endif
