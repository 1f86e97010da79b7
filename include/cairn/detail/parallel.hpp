// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_PARALLEL_HPP
#define CAIRN_DETAIL_PARALLEL_HPP

#include <cairn/detail/config.hpp>

#include <functional>

namespace cairn::detail {

/// Calls `work` on the calling thread and on up to `threads - 1` others, which receive no signals,
/// and returns when all calls have ended: `work` takes jobs from a list that they share. If the
/// system gives fewer threads, fewer share the list.
/// @param work  Throws nothing; called at the same time.
CAIRN_DECL void in_parallel(unsigned threads, const std::function<void()>& work) noexcept;

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/parallel.ipp>
#endif

#endif
