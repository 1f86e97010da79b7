// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_USABLE_CPUS_IPP
#define CAIRN_DETAIL_IMPL_USABLE_CPUS_IPP

#include <cairn/detail/usable_cpus.hpp>

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <limits>
#include <sstream>

namespace cairn::detail {

/// Returns the first two words of a file, as numbers; 0 for a word that is not a number, such as
/// "max". Both are 0 if there is no such file.
inline std::array<double, 2> two_numbers(const std::string& file) {
    std::ifstream in(file);
    std::array<double, 2> out{};
    for (auto& n : out) {
        std::string word;
        if (!(in >> word)) break;
        std::istringstream(word) >> n;
    }
    return out;
}

/// Calls `f(directory)` for a cgroup and those above it, as far as they are mounted here.
template <class F>
void for_each_cgroup(const std::string& mount, std::string path, F f) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    for (;; path.erase(path.rfind('/'))) {
        f(mount + path);
        if (path.empty()) return;
    }
}

CAIRN_DECL std::optional<unsigned> cgroup_cpus(const std::string& root) {
    double least = 0;  // 0: no quota
    auto const add = [&](double quota, double period) {
        if (quota > 0 && period > 0 && (least == 0 || quota / period < least))
            least = quota / period;
    };
    std::string const mounts = root + "/sys/fs/cgroup";
    std::ifstream in(root + "/proc/self/cgroup");
    // "0::/path" of version 2; "4:cpu,cpuacct:/path" of version 1.
    for (std::string line; std::getline(in, line);) {
        auto const first = line.find(':'), second = line.find(':', first + 1);
        if (second == line.npos || line.size() == second + 1 || line[second + 1] != '/') continue;
        auto const controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        auto const path = line.substr(second + 1);
        if (controllers == ",,")
            for_each_cgroup(mounts, path, [&](const std::string& at) {
                auto const [quota, period] = two_numbers(at + "/cpu.max");
                add(quota, period);
            });
        else if (controllers.find(",cpu,") != controllers.npos)
            for (auto const* mount : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"})
                for_each_cgroup(mounts + mount, path, [&](const std::string& at) {
                    add(two_numbers(at + "/cpu.cfs_quota_us")[0],
                        two_numbers(at + "/cpu.cfs_period_us")[0]);
                });
    }
    if (least == 0) return {};
    auto const whole = static_cast<unsigned>(std::min(least, 1e6));
    return std::max(1u, whole + (whole < least ? 1 : 0));
}

CAIRN_DECL unsigned count_cpus(const std::string& list) {
    std::istringstream in(list);
    unsigned all = 0;
    for (std::string part; std::getline(in, part, ',');) {
        std::istringstream numbers(part);
        unsigned first = 0, last = 0;
        if (!(numbers >> first)) return 0;
        if (numbers.peek() != '-')
            last = first;
        else if (numbers.ignore(); !(numbers >> last) || last < first)
            return 0;
        all += last - first + 1;
    }
    return all;
}

/// Calls `ask` at the first call, or at several concurrent ones. A function-local static would not
/// do: a child that is forked while another thread initialises it would wait for that without end.
/// @param ask  Returns more than 0.
template <class F>
unsigned asked_once(std::atomic<unsigned>& known, F&& ask) {
    auto n = known.load();
    if (n == 0) known = n = ask();
    return n;
}

inline constinit std::atomic<unsigned> known_quota{0}, known_of_host{0};

CAIRN_DECL usable_cpus usable_cpus::of_process() {
    // One set holds 1024 CPUs.
    std::array<cpu_set_t, 8> set{};
    auto const n = ::sched_getaffinity(0, sizeof set, set.data()) == 0
                       ? CPU_COUNT_S(sizeof set, set.data())
                       : 1;
    auto const quota = asked_once(
        known_quota, [] { return cgroup_cpus("").value_or(std::numeric_limits<unsigned>::max()); });
    auto const of_host = asked_once(known_of_host, [] {
        std::ifstream in("/sys/devices/system/cpu/online");
        std::string list;
        std::getline(in, list);
        return std::max(1u, count_cpus(list));
    });
    auto const mask = static_cast<unsigned>(std::max(n, 1));
    return {std::min(mask, quota), mask >= of_host};
}

}  // namespace cairn::detail

#endif
