// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_PARALLEL_IPP
#define CAIRN_DETAIL_IMPL_PARALLEL_IPP

#include <cairn/detail/parallel.hpp>

#include <cairn/detail/blocked_signals.hpp>

#include <exception>
#include <thread>
#include <vector>

namespace cairn::detail {

CAIRN_DECL void in_parallel(unsigned threads, const std::function<void()>& work) noexcept {
    std::vector<std::thread> others;
    if (threads > 1) {
        blocked_signals const blocked;
        try {
            others.reserve(threads - 1);
            while (others.size() < threads - 1) others.emplace_back(std::cref(work));
        } catch (const std::exception&) {  // no more threads, or no memory for them
        }
    }
    work();
    for (auto& t : others) t.join();
}

}  // namespace cairn::detail

#endif
