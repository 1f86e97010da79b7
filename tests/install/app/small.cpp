// SPDX-License-Identifier: Apache-2.0
// Header-only in a second: what it uses includes little.
#include <cairn/format/crc.hpp>
#include <cairn/tensor/box.hpp>

#ifdef CAIRN_SEPARATE_COMPILATION
#error this program is to be header-only
#endif

int main() {
    return cairn::format::crc32({}) == 0 && cairn::box({0}, {3}).shape[0] == 3 ? 0 : 1;
}
