// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_IMPL_PARALLEL_IPP
#define CAIRN_MEMORY_IMPL_PARALLEL_IPP

#include <cairn/memory/parallel.hpp>

#include <cairn/detail/blocked_signals.hpp>

#include <sched.h>

#include <algorithm>
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

CAIRN_DECL unsigned usable_cpus() noexcept {
    cpu_set_t set;
    CPU_ZERO(&set);
    auto const n = ::sched_getaffinity(0, sizeof set, &set) == 0
                       ? static_cast<unsigned>(CPU_COUNT(&set))
                       : std::thread::hardware_concurrency();  // more than 1024 of them
    return std::max(n, 1u);
}

}  // namespace cairn::detail

#endif
