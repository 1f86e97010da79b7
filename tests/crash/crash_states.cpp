// SPDX-License-Identifier: Apache-2.0
// Every state in which a crash can leave a save's files, as far as POSIX leaves it open.
//
//     crash_states [all|nodes|killed|exports|planted|syncs|ext4] [--long] [--only SCENARIO]
//                  [--seeds N]
//
// all: the machine crashes at any point of a save, and again in the save that follows. nodes: one
// host of a save crashes, and then the server. killed: a save is killed, and the machine crashes in
// the next one. exports: the machine crashes at any point of an export or a conversion.
// planted: each of a list of mistakes must be found.
// syncs: which sync of a save is needed. ext4: a real one, where this machine can cut one off.
// `all`, `nodes`, `killed` and `exports` end with `N states, M failures`.
#include "defects.hpp"
#include "exploration.hpp"
#include "exports.hpp"
#include "real_ext4.hpp"
#include "scenarios.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>

namespace crash {
namespace {

struct options {
    bool at_length = false;
    std::string mode = "all";
    std::string only{};
    int seeds = 0;
};

bounds bounds_of(const options& o) {
    bounds b;
    if (o.at_length) return b;
    b.first.samples = 300;
    b.first.deviations = 1;
    b.again.samples = 20;
    b.recoveries = 200;
    b.crashed_again = 20;
    return b;
}

class stopwatch {
public:
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    }

private:
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

/// Counts what fails in `f`, and says so.
template <class F>
int failures_in(const std::string& what, F&& f) {
    try {
        f();
        return 0;
    } catch (const std::exception& e) {
        std::printf("FAILED %s: %s\n", what.c_str(), e.what());
        return 1;
    }
}

/// The whole machine, or the server of the file system, crashes at any point.
int crash_all(const scenario& s, const options& o, counts& total) {
    stopwatch const watch;
    counts found;
    std::set<std::string> orders;
    bool const one_job = s.jobs.size() == 1;
    int const seeds = o.seeds != 0 ? o.seeds : one_job ? 3 : 24;
    int failures = 0;
    std::size_t direct = 0;
    for (int seed = 0; seed < seeds; ++seed) {
        auto const n = static_cast<std::uint64_t>(seed);
        failures += failures_in(s.name + ", seed " + std::to_string(seed), [&] {
            auto r = record(s.before, s.jobs, n);
            direct += static_cast<std::size_t>(
                std::count_if(r.all.begin(), r.all.end(), [](auto& c) { return c.direct; }));
            if (one_job) r.all = reordered(r.all, n);
            if (!orders.insert(one_job ? std::to_string(seed) : r.normal_form()).second) return;
            exploration e(r, bounds_of(o), n);
            e.run();
            found += e.found();
        });
    }
    std::printf("%-16s %zu orders, %s (%.1f s)\n", s.name.c_str(), orders.size(),
                found.text().c_str(), watch.seconds());
    if (s.jobs[0].direct && direct == 0)
        std::printf(
            "%-16s skipped: no direct I/O where files are recorded: all is written as usual\n",
            s.name.c_str());
    std::fflush(stdout);
    total += found;
    return failures;
}

/// One host crashes at any point, and the others go on; when they have ended, the server crashes.
int crash_nodes(const scenario& s, const options& o, counts& total) {
    if (s.jobs.size() != 1) return 0;
    stopwatch const watch;
    counts found;
    int failures = 0, crashes = 0, committed = 0;
    std::size_t const ways = o.at_length ? 40 : 4;
    for (int host = 0; host < s.jobs[0].ranks; ++host)
        for (int call = 0;; ++call) {
            bool happened = false;
            for (std::size_t way = 0; way < ways; ++way) {
                node_crash crash{.host = host, .call = call, .way = way};
                auto const name = s.name + ", host " + std::to_string(host) + ", call " +
                                  std::to_string(call) + ", way " + std::to_string(way);
                failures += failures_in(name, [&] {
                    std::vector<outcome> told;
                    auto const r = record(s.before, s.jobs, 1 + way, &crash, &told);
                    if (!crash.happened) return;
                    auto const last = static_cast<int>(r.checkpoints.all.size()) - 1;
                    int const first = r.checkpoints.begins_empty ? -1 : 0;
                    auto b = bounds_of(o);
                    b.first.all_up_to = o.at_length ? 4096 : 16;
                    b.first.samples = o.at_length ? 100 : 4;
                    b.recoveries = 1;
                    b.crashed_again = 0;
                    exploration e(r, b, 1);
                    if (told[0].any_well && last == first)
                        throw wrong("a rank was told that it is saved, but nothing was committed");
                    if (told[0].any_well && told[0].any_failed)
                        throw wrong("some ranks were told that it failed, others not");
                    e.run_at_end(told[0].any_well ? last : first,
                                 told[0].any_failed ? first : last);
                    found += e.found();
                    committed += told[0].any_well;
                });
                happened = happened || crash.happened;
                crashes += crash.happened;
            }
            if (!happened) break;
        }
    std::printf("%-16s %d crashes of a host, %d saves committed without it, %s (%.1f s)\n",
                s.name.c_str(), crashes, committed, found.text().c_str(), watch.seconds());
    std::fflush(stdout);
    total += found;
    return failures;
}

/// A job is killed at any point; the machine crashes during or after the save that follows.
int crash_after_kill(const scenario& s, const options& o, counts& total) {
    if (s.jobs.size() != 1) return 0;
    stopwatch const watch;
    counts found;
    int failures = 0, kills = 0;
    auto next = s.jobs[0];
    next.version = 3;
    next.first_host = 10;
    auto b = bounds_of(o);
    if (!o.at_length) {
        b.first = {.all_up_to = 64, .samples = 20, .deviations = 1};
        b.recoveries = 4;
        b.crashed_again = 0;
    }
    for (bool happened = true; happened && failures < 5; ++kills)
        failures += failures_in(s.name + ", killed before call " + std::to_string(kills), [&] {
            auto const r = record_after_kill(s.before, s.jobs[0], kills, next,
                                             1000 + static_cast<std::uint64_t>(kills), happened);
            if (!happened) return;
            exploration e(r, b, 1);
            e.run();
            found += e.found();
        });
    std::printf("%-16s %d kills, %s (%.1f s)\n", s.name.c_str(), kills - 1, found.text().c_str(),
                watch.seconds());
    std::fflush(stdout);
    total += found;
    return failures;
}

effort effort_of_exports(const options& o) {
    return o.at_length ? effort() : effort{.all_up_to = 256, .samples = 60, .deviations = 1};
}
/// The machine crashes at any point of an export.
int crash_exports(const options& o, counts& total) {
    int failures = 0;
    for (auto const& what : exporting::all()) {
        if (!std::string_view(what.name).starts_with(o.only)) continue;
        stopwatch const watch;
        failures += failures_in(what.name, [&] {
            auto const r = record(what);
            export_exploration e(what, r, effort_of_exports(o), o.at_length ? 1'000'000 : 12);
            e.run();
            std::printf("%-24s %s (%.1f s)\n", what.name.c_str(), e.found().text().c_str(),
                        watch.seconds());
            std::fflush(stdout);
            total += e.found();
        });
    }
    return failures;
}
/// @return How many mistakes in exports are not found.
int plant_in_exports(const options& o) {
    int missed = 0;
    for (auto const& d : export_defect::all()) {
        if (!std::string_view(d.scenario).starts_with(o.only)) continue;
        auto const what = exporting::named(d.scenario);
        auto r = record(what);
        auto const calls = r.all.size();
        d.make(what, r.all);
        std::string found;
        try {
            export_exploration(what, r, effort_of_exports(o), 1).run();
        } catch (const wrong& w) {
            found = w.what();
        }
        std::printf("%-55s %-12s %zu calls of %zu: %s\n", d.name.c_str(), what.name.c_str(),
                    r.all.size(), calls,
                    found.empty() ? "MISSED" : found.substr(0, found.find('\n')).c_str());
        std::fflush(stdout);
        missed += found.empty();
    }
    return missed;
}

/// Whether an enumeration of a recording finds something wrong, and what.
std::string found_in(const recording& r, const options& o) {
    try {
        exploration e(r, bounds_of(o), 1);
        e.run();
        return {};
    } catch (const wrong& w) {
        return w.what();
    }
}

/// Planted mistakes: each must be found.
int plant(const options& o) {
    int missed = 0;
    for (auto const& d : defect::all()) {
        if (!std::string_view(d.scenario).starts_with(o.only)) continue;
        auto const s = scenario::named(d.scenario);
        auto r = record(s.before, s.jobs, 1);
        auto const calls = r.all.size();
        auto const was = r.all;
        d.make(r.all);
        r.all = reordered(r.all, 0);
        auto const found = found_in(r, o);
        std::printf("%-55s %-12s %zu calls of %zu: %s\n", d.name.c_str(), s.name.c_str(),
                    r.all.size(), calls,
                    found.empty() ? "MISSED" : found.substr(0, found.find("\n    at")).c_str());
        std::fflush(stdout);
        missed += found.empty();
    }
    missed += plant_in_exports(o);
    std::printf("%d planted mistakes missed\n", missed);
    return missed;
}

/// Leaves out each sync alone, and says which of them nothing depends on.
int drop_syncs(const options& o) {
    for (auto const& s : scenario::all()) {
        if (s.jobs.size() != 1 || !std::string_view(s.name).starts_with(o.only)) continue;
        auto const whole = record(s.before, s.jobs, 1);
        for (std::size_t i = 0; i < whole.all.size(); ++i) {
            if (whole.all[i].what != operation::kind::sync) continue;
            auto r = whole;
            r.all.erase(r.all.begin() + static_cast<std::ptrdiff_t>(i));
            r.all = reordered(r.all, 0);
            auto const found = found_in(r, o);
            std::printf("%s, call %zu, %s: %s\n", s.name.c_str(), i, whole.all[i].text().c_str(),
                        found.empty() ? "NOT NEEDED" : found.substr(0, found.find('\n')).c_str());
            std::fflush(stdout);
        }
    }
    return 0;
}

/// What a real file system leaves is among what the model allows.
int compare_with_ext4(const options& o) {
    std::unique_ptr<real_ext4> ext4;
    try {
        ext4 = std::make_unique<real_ext4>();
    } catch (const std::exception& e) {
        std::printf("skipped: no ext4 can be cut off here: %s\n", e.what());
        return 77;
    }
    int failures = 0;
    for (auto const& s : scenario::all()) {
        if (s.jobs.size() != 1 || !std::string_view(s.name).starts_with(o.only)) continue;
        for (std::uint64_t seed = 1; seed <= (o.at_length ? 20u : 1u); ++seed)
            failures += failures_in(s.name, [&] {
                auto const r = ext4->check(s, seed);
                std::printf("%-16s cut off %zu times, %zu states, all allowed\n", s.name.c_str(),
                            r.cuts, r.distinct);
                std::fflush(stdout);
            });
    }
    return failures == 0 ? 0 : 1;
}

int usage() {
    std::fprintf(stderr,
                 "crash_states [all|nodes|killed|exports|planted|syncs|ext4] [--long] "
                 "[--only SCENARIO] [--seeds N]\n");
    return 2;
}

int main_of(int argc, char** argv) {
    options o;
    for (int i = 1; i < argc; ++i) {
        std::string_view const a = argv[i];
        if (a == "--long")
            o.at_length = true;
        else if (a == "--only" && i + 1 < argc)
            o.only = argv[++i];
        else if (a == "--seeds" && i + 1 < argc)
            o.seeds = std::atoi(argv[++i]);
        else if (!a.starts_with("-"))
            o.mode = a;
        else
            return usage();
    }
    // Thousands of small places: in memory, if there is such a directory.
    if (::access("/dev/shm", W_OK | X_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
    if (o.mode == "planted") return plant(o) == 0 ? 0 : 1;
    if (o.mode == "syncs") return drop_syncs(o);
    if (o.mode == "ext4") return compare_with_ext4(o);
    counts total;
    int failures = o.mode == "exports" ? crash_exports(o, total) : 0;
    for (auto const& s : scenario::all()) {
        if (o.mode == "exports" || !std::string_view(s.name).starts_with(o.only)) continue;
        failures += o.mode == "nodes"    ? crash_nodes(s, o, total)
                    : o.mode == "killed" ? crash_after_kill(s, o, total)
                                         : crash_all(s, o, total);
    }
    std::printf("%s\n%llu states, %d failures\n", total.text().c_str(),
                static_cast<unsigned long long>(total.states + total.states_again), failures);
    return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace crash

int main(int argc, char** argv) {
    try {
        return crash::main_of(argc, argv);
    } catch (const std::exception& e) {
        std::printf("FAILED: %s\n", e.what());
        return 1;
    }
}
