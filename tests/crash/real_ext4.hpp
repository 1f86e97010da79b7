// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_REAL_EXT4_HPP
#define CAIRN_TEST_CRASH_REAL_EXT4_HPP

#include "scenarios.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace crash {

/// An ext4 in a file, which can be cut off: a copy of that file is what a disk holds at one moment.
///
/// Mounted in a mount namespace of this process's own, so that nothing stays when it ends.
class real_ext4 {
public:
    /// @throws std::runtime_error with the reason where this machine does not allow it
    real_ext4();
    real_ext4(real_ext4&&) = delete;
    ~real_ext4();

    struct result {
        std::size_t cuts = 0;
        std::size_t distinct = 0;
    };
    /// Saves on it, and cuts it off after each call: what is then found must be sound, and a state
    /// that `disk` allows.
    /// @throws wrong
    result check(const scenario& s, std::uint64_t seed);

private:
    void cut(std::size_t number);
    image found_in(std::size_t number);

    std::filesystem::path dir_;
};

}  // namespace crash

#endif
