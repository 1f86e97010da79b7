// SPDX-License-Identifier: Apache-2.0
// Saves and loads the state of GPT-2 124M and Adam, 1.49 GB, rows sharded over ranks:
//
//     gpt2 save|load DIR [--ranks N] [--steps K] [--sync 0|1] [--check] [--deadline S]
//               [--group tcp|mpi]
//
// Ranks are the processes of a launcher (cairn launch, torchrun, Open MPI, Slurm) or N threads.
// `save` alternates between DIR/s0 and DIR/s1, `load` reads DIR/s0. Prints one line of JSON.
#include "../examples/ranks.hpp"

#include <cairn/cairn.hpp>
#ifdef CAIRN_BENCHMARKS_MPI
#include <cairn/comm/mpi_group.hpp>
#endif

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

struct parameter {
    std::string name;
    cairn::sizes shape;
};

/// torch's names and shapes of GPT-2's 148 parameters; Conv1D keeps inputs × outputs.
std::vector<parameter> gpt2() {
    std::vector<parameter> p{{"transformer.wte.weight", {50257, 768}},
                             {"transformer.wpe.weight", {1024, 768}}};
    for (int i = 0; i < 12; ++i) {
        auto const h = "transformer.h." + std::to_string(i) + ".";
        auto const add = [&](const char* name, cairn::sizes weight, std::int64_t bias) {
            p.push_back({h + name + ".weight", std::move(weight)});
            p.push_back({h + name + ".bias", {bias}});
        };
        add("ln_1", {768}, 768);
        add("attn.c_attn", {768, 2304}, 2304);
        add("attn.c_proj", {768, 768}, 768);
        add("ln_2", {768}, 768);
        add("mlp.c_fc", {768, 3072}, 3072);
        add("mlp.c_proj", {3072, 768}, 768);
    }
    p.push_back({"transformer.ln_f.weight", {768}});
    p.push_back({"transformer.ln_f.bias", {768}});
    return p;
}

std::uint32_t hash(const std::string& fqn) {
    std::uint32_t h = 2166136261u;
    for (char c : fqn) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
    return h;
}
/// The value of an element: a function of name and index, every bit of it.
float content(std::uint32_t seed, std::uint64_t index) {
    auto const bits = (seed ^ static_cast<std::uint32_t>(index)) * 2654435761u;
    return static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 1e-6f;
}

/// One rank's rows of everything.
class state {
public:
    state(int rank, int ranks, bool filled) : rank_(rank), ranks_(ranks) {
        for (auto const& p : gpt2()) {
            add("model." + p.name, p.shape, filled);
            auto const s = "optim.state." + p.name;
            add(s + ".exp_avg", p.shape, filled);
            add(s + ".exp_avg_sq", p.shape, filled);
            add(s + ".step", {}, filled);
            names_.push_back(cairn::value(p.name));
        }
        using cairn::value;
        groups_ = value::list({value::dict({{"lr", 6e-4},
                                            {"betas", value::tuple({0.9, 0.95})},
                                            {"eps", 1e-8},
                                            {"weight_decay", 0.1},
                                            {"params", value::list(names_)}})});
    }
    cairn::state_dict state_dict() {
        cairn::state_dict sd;
        for (auto& t : tensors_) sd[t.fqn] = t.view;
        sd["optim.param_groups"] = std::ref(groups_);
        sd["step"] = std::ref(step);
        return sd;
    }
    void load_state_dict(const cairn::state_dict&) {}

    std::uint64_t bytes() const {
        std::uint64_t n = 0;
        for (auto const& t : tensors_) n += t.memory.size() * sizeof(float);
        return n;
    }
    /// How many elements are not what they should be.
    std::uint64_t wrong() const {
        std::uint64_t n = 0;
        for (auto const& t : tensors_) {
            auto const seed = hash(t.fqn);
            for (std::size_t i = 0; i < t.memory.size(); ++i) {
                float const want = content(seed, t.first + i);
                n += std::memcmp(&want, &t.memory[i], sizeof want) != 0;
            }
        }
        return n + (step != 12345);
    }
    std::int64_t step = 0;

private:
    struct tensor {
        std::string fqn;
        std::vector<float> memory;
        std::uint64_t first;  ///< Index in the whole of the first element held here.
        cairn::sharded_view view;
    };

    void add(const std::string& fqn, const cairn::sizes& shape, bool filled) {
        auto where = cairn::box::whole(shape);
        if (!shape.empty())
            where =
                boxes_of(shape, cairn::device_mesh::line(ranks_), {cairn::shard_along{0}}, rank_)
                    .at(0);
        std::uint64_t const row =
            shape.empty() ? 1 : static_cast<std::uint64_t>(shape.product() / shape[0]);
        tensors_.push_back({fqn,
                            std::vector<float>(static_cast<std::size_t>(where.volume())),
                            shape.empty() ? 0 : static_cast<std::uint64_t>(where.offsets[0]) * row,
                            {}});
        auto& t = tensors_.back();
        auto const seed = hash(fqn);
        if (filled)
            for (std::size_t i = 0; i < t.memory.size(); ++i)
                t.memory[i] = content(seed, t.first + i);
        cairn::tensor_view const v(cairn::dtype::float32, where.lengths, t.memory.data());
        t.view = {shape, cairn::dtype::float32, {cairn::shard(where, v)}};
        step = filled ? 12345 : 0;
    }

    int rank_, ranks_;
    std::deque<tensor> tensors_;
    std::vector<cairn::value> names_;
    cairn::value groups_;
};

struct arguments {
    std::string mode, dir;
    int ranks = 1, steps = 1, deadline = 0;
    bool sync = true, check = false, mpi = false;
};

bool parse(int argc, char** argv, arguments& a) {
    if (argc < 3) return false;
    a.mode = argv[1];
    a.dir = argv[2];
    for (int i = 3; i < argc; ++i) {
        std::string const o = argv[i];
        if (o == "--check") {
            a.check = true;
            continue;
        }
        if (o == "--group" && i + 1 < argc) {
            std::string const group = argv[++i];
            a.mpi = group == "mpi";
            if (!a.mpi && group != "tcp") return false;
            continue;
        }
        if (i + 1 >= argc) return false;
        int const v = std::atoi(argv[++i]);
        if (o == "--ranks") a.ranks = v;
        else if (o == "--steps") a.steps = v;
        else if (o == "--sync") a.sync = v != 0;
        else if (o == "--deadline") a.deadline = v;
        else return false;
    }
    return (a.mode == "save" || a.mode == "load") && a.ranks > 0 && a.steps > 0;
}

void print_list(const char* name, const std::vector<double>& v) {
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < v.size(); ++i) std::printf("%s%.4f", i == 0 ? "" : ", ", v[i]);
    std::printf("]");
}

/// What one rank has to report.
struct result {
    std::uint64_t bytes = 0, wrong = 0;
    double maxrss_kib = 0, cpu_s = 0;
    std::uint64_t process = 0;
    std::vector<double> times{};

    cairn::message encode() const {
        std::vector<double> all{static_cast<double>(bytes), static_cast<double>(wrong), maxrss_kib,
                                cpu_s, static_cast<double>(process)};
        all.insert(all.end(), times.begin(), times.end());
        auto const b = std::as_bytes(std::span(all));
        return {b.begin(), b.end()};
    }
    static result decode(const cairn::message& m) {
        std::vector<double> all(m.size() / sizeof(double));
        std::memcpy(all.data(), m.data(), m.size());
        return {static_cast<std::uint64_t>(all[0]), static_cast<std::uint64_t>(all[1]), all[2],
                all[3], static_cast<std::uint64_t>(all[4]), {all.begin() + 5, all.end()}};
    }
};

std::atomic<bool> wrong_anywhere{false};

void print(const arguments& a, const std::vector<result>& all) {
    std::vector<double> slowest(static_cast<std::size_t>(a.steps), 0);
    std::uint64_t bytes = 0, wrong = 0;
    std::map<std::uint64_t, const result*> processes;  // threads share theirs
    for (auto const& r : all) {
        for (std::size_t k = 0; k < slowest.size(); ++k)
            slowest[k] = std::max(slowest[k], r.times[k]);
        bytes += r.bytes;
        wrong += r.wrong;
        processes[r.process] = &r;
    }
    double maxrss = 0, cpu = 0;
    for (auto const& [pid, r] : processes) {
        maxrss += r->maxrss_kib / 1024.0;
        cpu += r->cpu_s;
    }
    std::printf("{\"mode\": \"%s\", \"ranks\": %zu, \"bytes\": %llu, ", a.mode.c_str(), all.size(),
                static_cast<unsigned long long>(bytes));
    print_list("times", slowest);
    std::printf(", ");
    print_list("stalls", slowest);  // a blocking save stalls for as long as it takes
    std::printf(", \"maxrss_mb\": %.1f, \"cpu_s\": %.2f", maxrss, cpu);
    if (a.check) std::printf(", \"wrong\": %llu", static_cast<unsigned long long>(wrong));
    std::printf("}\n");
}

void run(const arguments& a, cairn::any_communicator& ranks) {
    result mine;
    state s(ranks.rank(), ranks.size(), a.mode == "save");
    mine.bytes = s.bytes();
    for (int k = 0; k < a.steps; ++k) {
        (void)cairn::await_completion<cairn::done_t>(
            [&](auto done) { ranks.barrier(cairn::no_deadline, std::move(done)); });
        auto const start = std::chrono::steady_clock::now();
        if (a.mode == "save") {
            cairn::save_options o;
            o.deadline = std::chrono::seconds(a.deadline);
            o.storage.sync_files = a.sync;
            cairn::save(s, a.dir + (k % 2 == 0 ? "/s0" : "/s1"), o, ranks);
        } else {
            cairn::load_options o;
            o.deadline = std::chrono::seconds(a.deadline);
            cairn::load(s, a.dir + "/s0", o, ranks);
        }
        mine.times.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    if (a.check) mine.wrong = s.wrong();
    if (mine.wrong != 0) wrong_anywhere = true;
    // Nobody's figures before all have ended: threads share a process.
    (void)cairn::await_completion<cairn::done_t>(
        [&](auto done) { ranks.barrier(cairn::no_deadline, std::move(done)); });
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    auto const seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    mine.maxrss_kib = static_cast<double>(u.ru_maxrss);
    mine.cpu_s = seconds(u.ru_utime) + seconds(u.ru_stime);
    mine.process = static_cast<std::uint64_t>(getpid());
    auto const got = cairn::await_completion<std::vector<cairn::message>>([&](auto done) {
        ranks.gather(mine.encode(), 0, cairn::no_deadline, std::move(done));
    });
    if (ranks.rank() != 0) return;
    std::vector<result> all;
    for (auto const& m : got) all.push_back(result::decode(m));
    print(a, all);
}

#ifdef CAIRN_BENCHMARKS_MPI
void run_over_mpi(const arguments& a) {
    struct mpi {
        mpi() {
            int level = 0;
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
        }
        ~mpi() { MPI_Finalize(); }
    } const running;
    cairn::any_communicator ranks{cairn::mpi_group(MPI_COMM_WORLD)};
    run(a, ranks);
}
#else
void run_over_mpi(const arguments&) { throw std::runtime_error("built without MPI"); }
#endif

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (!parse(argc, argv, a)) {
        std::fprintf(stderr,
                     "usage: gpt2 save|load DIR [--ranks N] [--steps K] [--sync 0|1] [--check] "
                     "[--deadline S] [--group tcp|mpi]\n");
        return 2;
    }
    try {
        if (a.mpi)
            run_over_mpi(a);
        else
            run_as_ranks(a.ranks, [&](cairn::any_communicator& ranks) { run(a, ranks); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gpt2: %s\n", e.what());
        return 1;
    }
    return wrong_anywhere ? 1 : 0;
}
