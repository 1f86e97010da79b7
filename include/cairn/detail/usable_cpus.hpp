// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_USABLE_CPUS_HPP
#define CAIRN_DETAIL_USABLE_CPUS_HPP

#include <cairn/detail/config.hpp>

#include <optional>
#include <string>

namespace cairn::detail {

/// The CPUs that a process may use.
struct usable_cpus {
    unsigned count = 1;
    /// Whether its affinity mask has all CPUs of the host, so that other processes use the same
    /// ones.
    bool whole_host = true;

    /// Returns the smaller of the affinity mask of the calling thread and the quota of the cgroup,
    /// which is looked up once; at least 1.
    CAIRN_DECL static usable_cpus of_process();
};

/// Returns how many CPUs the cgroup of this process and those above it may use, rounded up; nothing
/// where there is no quota. Version 2 (`cpu.max`) and 1 (`cpu.cfs_quota_us`).
/// @param root  The directory of /proc and /sys; "" outside of tests.
CAIRN_DECL std::optional<unsigned> cgroup_cpus(const std::string& root);

/// Returns how many CPUs a list names, e.g. "0-3,8"; 0 if it is malformed.
CAIRN_DECL unsigned count_cpus(const std::string& list);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/usable_cpus.ipp>
#endif

#endif
