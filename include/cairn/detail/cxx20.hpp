// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_CXX20_HPP
#define CAIRN_DETAIL_CXX20_HPP

// Every header of cairn includes this one before its own code (tests/layering.py): compiled as
// C++17, the default of g++ 12 without -std, they would produce thousands of errors.
#if __cplusplus < 202002L
#error cairn needs C++20: compile with -std=c++20 (CMake: cxx_std_20, Meson: cpp_std=c++20)
// The file does not exist: a failing #include ends the compilation here, unlike #error.
#include "cairn needs C++20: compile with -std=c++20"
#endif

#include <bit>

// Elements are written as memory has them, under a byte order that is always called little.
static_assert(std::endian::native == std::endian::little && sizeof(void*) == 8,
              "cairn needs a 64-bit, little-endian processor");

#endif
