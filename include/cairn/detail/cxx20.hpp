// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_CXX20_HPP
#define CAIRN_DETAIL_CXX20_HPP

// Every header of cairn reaches this one before its own first line (tests/layering.py): compiled as
// C++17, which is what g++ 12 does without -std, they would be thousands of errors.
#if __cplusplus < 202002L
#error cairn needs C++20: compile with -std=c++20 (CMake: cxx_std_20, Meson: cpp_std=c++20)
// There is no such file: an #include that fails ends the compilation here, as an #error does not.
#include "cairn needs C++20: compile with -std=c++20"
#endif

#endif
