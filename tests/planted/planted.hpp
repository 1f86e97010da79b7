// SPDX-License-Identifier: Apache-2.0
/// @file
/// The switch of a planted defect; tests/planted/plant.py copies it to cairn/planted.hpp.
#ifndef CAIRN_TESTS_PLANTED_PLANTED_HPP
#define CAIRN_TESTS_PLANTED_PLANTED_HPP

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace cairn_planted {

/// Read before main(): a test sees who reads the environment later.
inline const char* const chosen = std::getenv("CAIRN_PLANTED");

/// Whether the environment asks for this defect. The first time that it does, the file that
/// $CAIRN_PLANTED_REACHED names is made. Changes no errno and takes no memory: what is asked here
/// may stand between a system call and its error.
inline bool on(const char* name) noexcept {
    if (chosen == nullptr || std::strcmp(chosen, name) != 0) return false;
    static const bool noted = [] {
        int const before = errno;
        // Not open(): a test sees those.
        if (char const* const file = std::getenv("CAIRN_PLANTED_REACHED"); file != nullptr)
            if (int const fd = ::creat(file, 0666); fd >= 0) ::close(fd);
        errno = before;
        return true;
    }();
    return noted;
}

}  // namespace cairn_planted

#endif
