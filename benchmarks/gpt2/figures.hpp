// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_BENCHMARKS_GPT2_FIGURES_HPP
#define CAIRN_BENCHMARKS_GPT2_FIGURES_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

inline void print_list(const char* name, const std::vector<double>& v) {
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < v.size(); ++i) std::printf("%s%.4f", i == 0 ? "" : ", ", v[i]);
    std::printf("]");
}

/// What one rank has to report.
struct result {
    /// One figure for each step.
    enum column : std::size_t {
        times,
        stalls,
        cpus,
        memcpys,
        faults,
        residents,
        peaks,
        requests,  ///< To a bucket.
        alone_median,
        alone_p99,
        beside_median,
        beside_p99,
        columns
    };
    static constexpr std::pair<const char*, column> foreground_columns[] = {
        {"alone_median", alone_median},
        {"alone_p99", alone_p99},
        {"beside_median", beside_median},
        {"beside_p99", beside_p99}};

    std::uint64_t bytes = 0, wrong = 0;
    double maxrss_kib = 0, cpu_s = 0;
    std::uint64_t process = 0;
    std::array<std::vector<double>, columns> steps{};

    cairn::message encode() const {
        std::vector<double> all{static_cast<double>(bytes), static_cast<double>(wrong), maxrss_kib,
                                cpu_s, static_cast<double>(process)};
        for (auto const& c : steps) all.insert(all.end(), c.begin(), c.end());
        auto const b = std::as_bytes(std::span(all));
        return {b.begin(), b.end()};
    }
    static result decode(const cairn::message& m) {
        std::vector<double> all(m.size() / sizeof(double));
        std::memcpy(all.data(), m.data(), m.size());
        result r{static_cast<std::uint64_t>(all[0]),
                 static_cast<std::uint64_t>(all[1]),
                 all[2],
                 all[3],
                 static_cast<std::uint64_t>(all[4]),
                 {}};
        auto const n = static_cast<std::ptrdiff_t>((all.size() - 5) / columns);
        auto at = all.begin() + 5;
        for (auto& c : r.steps) {
            c.assign(at, at + n);
            at += n;
        }
        return r;
    }
};

/// The rate of the stalls as a share of memcpy's: median, least and most of the steps from the
/// second on; the first one touches memory for the first time. Empty if there are none.
inline std::vector<double> shares_of_memcpy(const std::vector<double>& stalls,
                                            const std::vector<double>& memcpys) {
    std::vector<double> s;
    for (std::size_t k = 1; k < stalls.size(); ++k)
        if (memcpys[k] > 0) s.push_back(memcpys[k] / stalls[k]);
    if (s.empty()) return s;
    std::sort(s.begin(), s.end());
    auto const n = s.size();
    return {(s[(n - 1) / 2] + s[n / 2]) / 2, s.front(), s.back()};
}

/// @param stage  How the tensors were staged; empty if they were not.
inline void print(const std::string& mode, const std::string& stage, bool check,
                  const std::vector<result>& all, const std::vector<cairn::phase_time>& phases) {
    auto const n = all.front().steps[result::times].size();
    std::uint64_t bytes = 0, wrong = 0;
    std::map<std::uint64_t, const result*> processes;  // threads share theirs
    for (auto const& r : all) {
        bytes += r.bytes;
        wrong += r.wrong;
        processes[r.process] = &r;
    }
    auto const slowest = [&](result::column c) {
        std::vector<double> s(n, 0);
        for (auto const& r : all)
            for (std::size_t k = 0; k < n; ++k) s[k] = std::max(s[k], r.steps[c][k]);
        return s;
    };
    auto const sum = [&](result::column c) {
        std::vector<double> s(n, 0);
        for (auto const& [pid, r] : processes)
            for (std::size_t k = 0; k < n; ++k) s[k] += r->steps[c][k];
        return s;
    };
    double maxrss = 0, cpu = 0;
    for (auto const& [pid, r] : processes) {
        maxrss += r->maxrss_kib / 1024.0;
        cpu += r->cpu_s;
    }
    std::printf("{\"mode\": \"%s\", ", mode.c_str());
    if (!stage.empty()) std::printf("\"stage\": \"%s\", ", stage.c_str());
    std::printf("\"ranks\": %zu, \"bytes\": %llu, ", all.size(),
                static_cast<unsigned long long>(bytes));
    print_list("times", slowest(result::times));
    std::printf(", ");
    print_list("stalls", slowest(result::stalls));
    if (!stage.empty()) {
        std::printf(", ");
        print_list("memcpys", slowest(result::memcpys));
        std::printf(", ");
        print_list("share_of_memcpy",
                   shares_of_memcpy(slowest(result::stalls), slowest(result::memcpys)));
        std::printf(", ");
        print_list("faults", sum(result::faults));
        std::printf(", ");
        print_list("residents", sum(result::residents));
        std::printf(", ");
        print_list("peaks", sum(result::peaks));
        for (auto const& [name, c] : result::foreground_columns) {
            std::printf(", ");
            print_list(name, slowest(c));
        }
    }
    std::printf(", ");
    print_list("cpus", sum(result::cpus));
    if (auto const some = sum(result::requests); some.front() > 0) {
        std::printf(", ");
        print_list("requests", some);
    }
    std::printf(", \"phases_ms\": {");
    for (auto const& p : phases)
        std::printf("%s\"%s\": %.1f", &p == phases.data() ? "" : ", ", p.phase.c_str(),
                    static_cast<double>(p.slowest.count()) / 1000);
    std::printf("}, \"maxrss_mb\": %.1f, \"cpu_s\": %.2f", maxrss, cpu);
    if (check) std::printf(", \"wrong\": %llu", static_cast<unsigned long long>(wrong));
    std::printf("}\n");
}

}  // namespace gpt2

#endif
