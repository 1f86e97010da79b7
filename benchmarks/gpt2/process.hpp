// SPDX-License-Identifier: Apache-2.0
// The system's figures of this process, and clocks.
#ifndef CAIRN_BENCHMARKS_GPT2_PROCESS_HPP
#define CAIRN_BENCHMARKS_GPT2_PROCESS_HPP

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>

namespace gpt2 {

inline rusage usage() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u;
}
inline double resident_mb() {
    std::uint64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return static_cast<double>(resident * static_cast<std::uint64_t>(getpagesize())) / 1e6;
}
/// The most MB that were resident so far.
inline double peak_mb() {
    return static_cast<double>(usage().ru_maxrss) * 1024 / 1e6;
}
/// Of this process so far.
inline double cpu_seconds() {
    auto const u = usage();
    auto const seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(u.ru_utime) + seconds(u.ru_stime);
}
inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gpt2

#endif
