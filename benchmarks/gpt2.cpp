// SPDX-License-Identifier: Apache-2.0
// Saves and loads the state of GPT-2 124M and Adam, 1.49 GB, rows sharded over ranks:
//
//     gpt2 save|load|async DIR [--ranks N] [--steps K] [--sync 0|1] [--check] [--timeout S]
//               [--group tcp|mpi|nccl] [--replicas POLICY[,POLICY]...] [--stage fresh|arena]
//               [--budget BYTES] [--foreground] [--polite]
//
// Ranks are the processes of a launcher (cairn launch, torchrun, Open MPI, Slurm) or N threads.
// `save` alternates between DIR/s0 and DIR/s1, `load` reads DIR/s0. Prints one line of JSON: for
// each step the time of the slowest rank, and the processor time of all.
// With --replicas every rank holds everything, as in pure data parallelism, and the steps take the
// policies in turn: `load` has each rank read it (each), or reads it once and broadcasts it (once),
// or finds out which is faster (faster); `save` compares what the ranks hold (trust, sampled,
// verify), and writes DIR/s0 only.
// `async` saves in the background: `stalls` are the seconds until the state is copied, to memory of
// that save alone (fresh) or to an arena that is kept; `times` those until the checkpoint exists.
// After each save all ranks copy the same bytes once more, with memcpy to memory whose pages are
// present (`memcpys`). `faults` are the page faults of all processes while the state is copied,
// `residents` the MB of memory that all of them have after a step, and `peaks` the most so far.
// --budget bounds the arena of each rank.
// With --foreground each rank computes meanwhile: `beside_median` and `beside_p99` are the seconds
// of a step of that while a save is written, `alone_median` and `alone_p99` those of as many steps
// without a save; of the slowest rank. --polite gives the writers the lowest priority.
#include "gpt2/figures.hpp"
#include "gpt2/foreground.hpp"
#include "gpt2/groups.hpp"
#include "gpt2/state.hpp"

#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/observe/progress_line.hpp>

#include <boost/asio/use_future.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using gpt2::result;

struct arguments {
    std::string mode, dir;
    std::string group = "tcp", stage = "arena";
    std::vector<std::string> replicas{};
    int ranks = 1, steps = 1, timeout = 0;
    std::uint64_t budget = cairn::arena_options::no_limit;
    bool sync = true, check = false, foreground = false, polite = false;
    cairn::progress_line progress{};
};

const std::map<std::string, cairn::read_once_policy> ways_to_load{
    {"each", cairn::read_once_policy::never},
    {"once", cairn::read_once_policy::always},
    {"faster", cairn::read_once_policy::automatic}};
const std::map<std::string, cairn::replica_policy> ways_to_save{
    {"trust", cairn::replica_policy::trust},
    {"sampled", cairn::replica_policy::sampled},
    {"verify", cairn::replica_policy::verify}};

std::vector<std::string> split(const std::string& words) {
    std::istringstream in(words);
    std::vector<std::string> all;
    for (std::string word; std::getline(in, word, ',');) all.push_back(word);
    return all;
}

bool parse(int argc, char** argv, arguments& a) {
    if (argc < 3) return false;
    a.mode = argv[1];
    a.dir = argv[2];
    for (int i = 3; i < argc; ++i) {
        std::string const o = argv[i];
        if (o == "--check" || o == "--foreground" || o == "--polite") {
            (o == "--check" ? a.check : o == "--polite" ? a.polite : a.foreground) = true;
            continue;
        }
        if (i + 1 >= argc) return false;
        std::string const word = argv[++i];
        if (o == "--group") {
            a.group = word;
            continue;
        }
        if (o == "--budget") {
            a.budget = std::strtoull(word.c_str(), nullptr, 10);
            continue;
        }
        if (o == "--stage") {
            a.stage = word;
            continue;
        }
        if (o == "--replicas") {
            a.replicas = split(word);
            continue;
        }
        int const v = std::atoi(word.c_str());
        if (o == "--ranks")
            a.ranks = v;
        else if (o == "--steps")
            a.steps = v;
        else if (o == "--sync")
            a.sync = v != 0;
        else if (o == "--timeout")
            a.timeout = v;
        else
            return false;
    }
    return (a.mode == "save" || a.mode == "load" || a.mode == "async") && a.ranks > 0 &&
           a.steps > 0 && (a.group == "tcp" || a.group == "mpi" || a.group == "nccl") &&
           (a.stage == "fresh" || a.stage == "arena") &&
           (a.replicas.empty() || a.mode != "async") &&
           (a.mode == "async" || (!a.foreground && !a.polite)) &&
           std::all_of(a.replicas.begin(), a.replicas.end(), [&](const std::string& p) {
               return a.mode == "save" ? ways_to_save.count(p) != 0 : ways_to_load.count(p) != 0;
           });
}

std::atomic<bool> wrong_anywhere{false};

/// Of each exchange; none unless asked for.
std::chrono::milliseconds timeout(const arguments& a) {
    return a.timeout == 0 ? cairn::no_timeout : std::chrono::seconds(a.timeout);
}

template <class Comm, class Plane>
void load(gpt2::state& s, const arguments& a, std::size_t step, Comm& ranks, Plane& plane) {
    cairn::load_options o;
    o.exchange_timeout = timeout(a);
    if (a.replicas.empty()) {
        cairn::load(s, a.dir + "/s0", o, ranks, a.progress);
        return;
    }
    o.read_once = ways_to_load.at(a.replicas[step % a.replicas.size()]);
    cairn::load(s, a.dir + "/s0", o, ranks, plane, a.progress);
}

template <class Comm>
void save(gpt2::state& s, const arguments& a, std::size_t step, Comm& ranks) {
    cairn::save_options o;
    o.exchange_timeout = timeout(a);
    o.storage.sync_files = a.sync;
    if (a.replicas.empty()) {
        cairn::save(s, a.dir + (step % 2 == 0 ? "/s0" : "/s1"), o, ranks, a.progress);
        return;
    }
    o.replicas = ways_to_save.at(a.replicas[step % a.replicas.size()]);
    cairn::save(s, a.dir + "/s0", o, ranks, a.progress);  // what all find is alike
}

rusage usage() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u;
}
double resident_mb() {
    std::uint64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return static_cast<double>(resident * static_cast<std::uint64_t>(getpagesize())) / 1e6;
}
/// Of this process so far.
double cpu_seconds() {
    auto const u = usage();
    auto const seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(u.ru_utime) + seconds(u.ru_stime);
}

template <class Comm>
void wait_for_all(Comm& ranks) {
    (void)cairn::await_completion<cairn::message>(
        [&](auto done) { ranks.broadcast({}, 0, cairn::no_deadline, std::move(done)); });
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What `async` keeps from step to step.
struct background {
    explicit background(std::uint64_t budget) : arena({.budget = budget}) {}

    cairn::staging_arena arena;
    std::vector<std::byte> copied{};  ///< Where memcpy copies to.
    gpt2::foreground training{};
};

/// Saves in the background, waits for the end, and measures one memcpy of the same bytes.
template <class Comm>
void async(gpt2::state& s, const arguments& a, std::size_t step, Comm& ranks, background& b,
           result& mine) {
    cairn::save_options o;
    o.exchange_timeout = timeout(a);
    o.storage.sync_files = a.sync;
    if (a.polite) o.storage.polite.nice = 19;
    auto const id = a.dir + (step % 2 == 0 ? "/s0" : "/s1");
    auto const faults = usage().ru_minflt;
    auto const start = std::chrono::steady_clock::now();
    auto pending = a.stage == "arena"
                       ? cairn::async_save(s, id, o, ranks, b.arena, boost::asio::use_future).get()
                       : cairn::async_save(s, id, o, ranks, boost::asio::use_future).get();
    mine.steps[result::stalls].push_back(seconds_since(start));
    mine.steps[result::faults].push_back(static_cast<double>(usage().ru_minflt - faults));
    std::vector<double> beside, alone;
    while (a.foreground && !pending.ready()) beside.push_back(b.training.step());
    (void)pending.wait();
    mine.steps[result::times].push_back(seconds_since(start));
    wait_for_all(ranks);
    for (std::size_t k = 0; k < beside.size(); ++k) alone.push_back(b.training.step());
    mine.steps[result::alone_median].push_back(gpt2::quantile(alone, 0.5));
    mine.steps[result::alone_p99].push_back(gpt2::quantile(alone, 0.99));
    mine.steps[result::beside_median].push_back(gpt2::quantile(beside, 0.5));
    mine.steps[result::beside_p99].push_back(gpt2::quantile(beside, 0.99));
    mine.steps[result::residents].push_back(resident_mb());
    mine.steps[result::peaks].push_back(static_cast<double>(usage().ru_maxrss) / 1024.0);
    if (a.budget == cairn::arena_options::no_limit) b.copied.resize(s.bytes());
    wait_for_all(ranks);
    auto const copying = std::chrono::steady_clock::now();
    if (!b.copied.empty()) s.copy_to(b.copied.data());
    mine.steps[result::memcpys].push_back(seconds_since(copying));
}

template <class Comm, class Plane>
void run(const arguments& a, Comm& ranks, Plane& plane) {
    result mine;
    bool const whole = !a.replicas.empty();
    gpt2::state s(whole ? 0 : ranks.rank(), whole ? 1 : ranks.size(), a.mode != "load");
    background kept(a.budget);
    mine.bytes = s.bytes();
    for (int k = 0; k < a.steps; ++k) {
        wait_for_all(ranks);
        auto const cpu = cpu_seconds();
        auto const start = std::chrono::steady_clock::now();
        auto const step = static_cast<std::size_t>(k);
        if (a.mode == "async") {
            if constexpr (cairn::BackgroundCommunicator<Comm>)
                async(s, a, step, ranks, kept, mine);
            else
                throw std::runtime_error("async: these ranks have no background");
        } else {
            if (a.mode == "save")
                save(s, a, step, ranks);
            else
                load(s, a, step, ranks, plane);
            mine.steps[result::times].push_back(seconds_since(start));
            mine.steps[result::stalls].push_back(seconds_since(start));  // it stalls throughout
            mine.steps[result::memcpys].push_back(0);
            mine.steps[result::faults].push_back(0);
            mine.steps[result::residents].push_back(resident_mb());
            mine.steps[result::peaks].push_back(static_cast<double>(usage().ru_maxrss) / 1024.0);
            for (auto const& [name, c] : result::foreground_columns) mine.steps[c].push_back(0);
        }
        mine.steps[result::cpus].push_back(cpu_seconds() - cpu);
    }
    if (a.check) mine.wrong = s.wrong();
    if (mine.wrong != 0) wrong_anywhere = true;
    // Nobody's figures before all have ended: threads share a process.
    wait_for_all(ranks);
    mine.maxrss_kib = static_cast<double>(usage().ru_maxrss);
    mine.cpu_s = cpu_seconds();
    mine.process = static_cast<std::uint64_t>(getpid());
    auto const got = cairn::await_completion<std::vector<cairn::message>>(
        [&](auto done) { ranks.gather(mine.encode(), 0, cairn::no_deadline, std::move(done)); });
    if (ranks.rank() != 0) return;
    std::vector<result> all;
    for (auto const& m : got) all.push_back(result::decode(m));
    gpt2::print(a.mode, a.check, all);
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (!parse(argc, argv, a)) {
        std::fprintf(
            stderr,
            "usage: gpt2 save|load|async DIR [--ranks N] [--steps K] [--sync 0|1] [--check] "
            "[--timeout S] [--group tcp|mpi|nccl] "
            "[--replicas POLICY[,POLICY]...] [--stage fresh|arena] [--budget BYTES] "
            "[--foreground] [--polite]\n");
        return 2;
    }
    try {
        gpt2::run_over(a.group, a.ranks, [&](auto& ranks, auto& plane) { run(a, ranks, plane); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gpt2: %s\n", e.what());
        return 1;
    }
    return wrong_anywhere ? 1 : 0;
}
