// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_CONFIG_HPP
#define CAIRN_DETAIL_CONFIG_HPP

#include <cairn/detail/cxx20.hpp>

/// Code that does not depend on the user's types can be compiled once: if
/// `CAIRN_SEPARATE_COMPILATION` is defined, headers declare it, and the one file that includes
/// `cairn/src.hpp` defines it. Otherwise every header includes its `impl/*.ipp`, all of it inline.
#if defined(CAIRN_SEPARATE_COMPILATION)
#define CAIRN_DECL
#else
#define CAIRN_HEADER_ONLY 1
#define CAIRN_DECL inline
#endif

#endif
