// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_CONFIG_HPP
#define CAIRN_DETAIL_CONFIG_HPP

#include <cairn/detail/cxx20.hpp>

/// What does not depend on the user's types is compiled once, if the user likes: where
/// `CAIRN_SEPARATE_COMPILATION` is defined, headers declare it, and the one file that includes
/// `cairn/src.hpp` defines it. Otherwise every header brings its `impl/*.ipp`, all of it inline.
#if defined(CAIRN_SEPARATE_COMPILATION)
#define CAIRN_DECL
#else
#define CAIRN_HEADER_ONLY 1
#define CAIRN_DECL inline
#endif

#endif
