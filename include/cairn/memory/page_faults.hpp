// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_PAGE_FAULTS_HPP
#define CAIRN_MEMORY_PAGE_FAULTS_HPP

#include <cairn/detail/cxx20.hpp>

#include <sys/resource.h>

#include <cstdint>

namespace cairn {

/// How many pages the calling thread has faulted in so far: a first touch of memory costs several
/// times as much as a copy into memory that has been touched.
inline std::uint64_t page_faults_of_thread() noexcept {
    rusage usage{};
    if (::getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
    return static_cast<std::uint64_t>(usage.ru_minflt) +
           static_cast<std::uint64_t>(usage.ru_majflt);
}

}  // namespace cairn

#endif
