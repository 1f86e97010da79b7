// SPDX-License-Identifier: Apache-2.0
// Nobody can tell whether there are pointers in a class with private members.
// expect: as_bytes cannot inspect this type
#include <cairn/state/state_dict.hpp>

#include <random>

#ifdef BASELINE
template <>
inline constexpr bool cairn::plain_bytes<std::mt19937> = true;
#endif

cairn::state_dict f(std::mt19937& engine) {
    return {{"rng", cairn::as_bytes(engine)}};
}
