// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_POLITENESS_IPP
#define CAIRN_STORAGE_IMPL_POLITENESS_IPP

#include <cairn/storage/politeness.hpp>

#include <cairn/error.hpp>

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace cairn::detail {

CAIRN_DECL void check(const politeness& p) {
    if (p.nice < 0 || p.nice > 19)
        throw error(errc::invalid_argument,
                    {.expected = "politeness::nice: 0 to 19", .found = std::to_string(p.nice)});
    for (auto const cpu : p.cpus)
        if (cpu < 0 || cpu >= CPU_SETSIZE)
            throw error(errc::invalid_argument,
                        {.expected = "politeness::cpus: 0 to " + std::to_string(CPU_SETSIZE - 1),
                         .found = std::to_string(cpu)});
}

CAIRN_DECL void apply_to_this_thread(const politeness& p) {
    auto const failed = [](const char* option, const char* remedy) {
        throw error(error_code(errno, boost::system::generic_category()),
                    {.found = std::string("politeness::") + option + " could not be applied",
                     .remedy = remedy});
    };
    // On Linux all of these concern a thread; 0 is the calling one.
    errno = 0;
    auto const now = ::getpriority(PRIO_PROCESS, 0);
    if (errno == 0 && now < p.nice) ::setpriority(PRIO_PROCESS, 0, p.nice);
    if (errno != 0) failed("nice", "leave it at 0");
    if (p.io != io_priority::as_program) {
        // Not in the C library. From linux/ioprio.h: a class, and a level in it.
        constexpr int this_thread = 1, class_shift = 13;
        constexpr int best_effort = 2, lowest = 7, idle = 3;
        auto const value =
            p.io == io_priority::idle ? idle << class_shift : best_effort << class_shift | lowest;
        if (::syscall(SYS_ioprio_set, this_thread, 0, value) != 0)
            failed("io", "leave it at io_priority::as_program");
    }
    if (p.cpus.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (auto const cpu : p.cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
        failed("cpus", "name CPUs that the program may use");
}

}  // namespace cairn::detail

#endif
