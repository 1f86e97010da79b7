// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SHIFTED_CLOCK_HPP
#define CAIRN_TEST_SUPPORT_SHIFTED_CLOCK_HPP

#include <chrono>

namespace support {

/// Lets `steady_clock` of this program be ahead, until it goes: what waits for a time of that clock
/// meanwhile waits for ever, because the kernel's is as it was.
class shifted_clock {
public:
    shifted_clock() = default;
    shifted_clock(shifted_clock&&) = delete;
    ~shifted_clock();
    /// By so much more.
    void shift(std::chrono::steady_clock::duration by);
};

}  // namespace support

#endif
