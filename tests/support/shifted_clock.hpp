// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SHIFTED_CLOCK_HPP
#define CAIRN_TEST_SUPPORT_SHIFTED_CLOCK_HPP

#include <chrono>

namespace support {

/// From now on `steady_clock` of this program is ahead by so much more.
void shift_clock(std::chrono::steady_clock::duration by);

}  // namespace support

#endif
