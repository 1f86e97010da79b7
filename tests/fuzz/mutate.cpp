// SPDX-License-Identifier: Apache-2.0
// Fuzzing without libFuzzer, repeatable: see `usage`. Each execution changes one file of the corpus
// by what it says or by its bytes, and makes its checksums right; it depends on nothing but the
// corpus, the seed and its number, so each can be run again alone.
#include "targets.hpp"

#include "support/allocations.hpp"
#include "support/error_codes.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr const char* usage =
    "usage: mutate --corpus DIR [--runs N] [--seed S] [--target T] [--first I] [--write FILE]\n"
    "  --runs N     executions of each target; of those that are slow, fewer (20000)\n"
    "  --exactly    N of slow ones too\n"
    "  --seed S     1\n"
    "  --target T   only this one, or these: T,U\n"
    "  --first I    number of the first execution: with --runs 1, one alone (0)\n"
    "  --write F    writes the last input there\n";

struct options {
    std::string corpus{}, write{}, targets{};
    std::uint64_t runs = 20000, seed = 1, first = 0;
    bool exactly = false;
};

std::optional<options> parse(int argc, char** argv) {
    options o;
    for (int i = 1; i < argc; ++i) {
        std::string_view const name = argv[i];
        if (name == "--exactly") {
            o.exactly = true;
            continue;
        }
        if (++i == argc) return {};
        auto const number = [&] { return std::strtoull(argv[i], nullptr, 10); };
        if (name == "--corpus")
            o.corpus = argv[i];
        else if (name == "--write")
            o.write = argv[i];
        else if (name == "--target")
            o.targets = argv[i];
        else if (name == "--runs")
            o.runs = number();
        else if (name == "--seed")
            o.seed = number();
        else if (name == "--first")
            o.first = number();
        else
            return {};
    }
    if (o.corpus.empty()) return {};
    return o;
}

bool is_chosen(const std::string& names, std::string_view name) {
    return names.empty() || ("," + names + ",").find("," + std::string(name) + ",") != names.npos;
}

// What runs now, for the handler of signals: a crash, or an execution that does not end.
struct {
    char line[200];
    volatile std::uint64_t number;
} now;
std::uint64_t seen = 0;

void name_it() {
    std::fprintf(stderr, "finding: %s --first %llu --runs 1\n", now.line,
                 static_cast<unsigned long long>(now.number));
}
#if defined(__SANITIZE_ADDRESS__)
#define CAIRN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_SANITIZED 1
#endif
#endif
#ifdef CAIRN_SANITIZED
extern "C" void __sanitizer_set_death_callback(void (*)());
#else
extern "C" void died(int signal) {
    name_it();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}
#endif
/// Two ticks during one execution: it hangs.
extern "C" void tick(int) {
    if (seen == now.number + 1) {
        std::fprintf(stderr, "an execution does not end\n");
        name_it();
        std::_Exit(3);
    }
    seen = now.number + 1;
    ::alarm(60);
}
std::vector<fuzz::input> read_corpus(const fs::path& folder) {
    std::vector<fs::path> files;
    for (auto const& f : fs::directory_iterator(folder)) files.push_back(f.path());
    std::sort(files.begin(), files.end());
    std::vector<fuzz::input> all;
    for (auto const& p : files) {
        std::ifstream f(p, std::ios::binary);
        std::string const s{std::istreambuf_iterator<char>(f), {}};
        auto const b = std::as_bytes(std::span(s));
        all.emplace_back(b.begin(), b.end());
    }
    return all;
}

class runner {
public:
    runner(const fuzz::target& t, const options& o)
        : t_(t), o_(o), corpus_(read_corpus(fs::path(o.corpus) / t.name)) {}

    /// @return the number of findings
    std::uint64_t run() {
        std::snprintf(now.line, sizeof now.line, "mutate --target %s --seed %llu",
                      std::string(t_.name).c_str(), static_cast<unsigned long long>(o_.seed));
        auto n = o_.runs;
        if (o_.runs > 1 && !o_.exactly)
            n = std::max<std::uint64_t>(n / t_.slow, 2 * corpus_.size());
        for (auto i = o_.first; i < o_.first + n; ++i) one(i);
        executions = n;
        if (o_.runs > 1 && (accepted_ == 0 || refused_ == 0)) complain("all are alike");
        std::printf(
            "%-11s %zu seeds, %llu executions: %llu accepted, %llu refused, "
            "%llu findings; at most %zu KiB\n",
            std::string(t_.name).c_str(), corpus_.size(), static_cast<unsigned long long>(n),
            static_cast<unsigned long long>(accepted_), static_cast<unsigned long long>(refused_),
            static_cast<unsigned long long>(findings_), most_ >> 10);
        std::fflush(stdout);
        return findings_;
    }
    std::uint64_t executions = 0;

private:
    void complain(const std::string& what) {
        if (++findings_ > 20) return;
        std::printf("%s\n", what.c_str());
        std::printf("finding: %s --first %llu --runs 1\n", now.line,
                    static_cast<unsigned long long>(now.number));
        std::fflush(stdout);
    }
    /// The files of the corpus come first, as they are.
    fuzz::input input_of(std::uint64_t i) {
        if (i < corpus_.size()) return corpus_[static_cast<std::size_t>(i)];
        fuzz::engine e(o_.seed * 0x9e3779b97f4a7c15u ^ (i * 0xd1342543de82ef95u));
        (void)e();
        // Small ones more often: many more are executed in the same time.
        auto const smaller = [](auto const& a, auto const& b) { return a->size() < b->size(); };
        auto const& seed = *std::min({e.any(corpus_), e.any(corpus_), e.any(corpus_)}, smaller);
        if (t_.change != nullptr && !e.one_in(4)) {
            try {
                return t_.change(seed, e);
            } catch (const cairn::error&) {  // it cannot be read, or written
            }
        }
        auto b = seed;
        fuzz::change_bytes(b, *e.any(corpus_), e);
        if (t_.seal != nullptr && !e.one_in(8)) t_.seal(b);
        return b;
    }
    void one(std::uint64_t i) {
        now.number = i;
        fuzz::input b;
        try {
            b = input_of(i);
        } catch (const std::exception& x) {
            return complain(x.what());
        }
        if (!o_.write.empty())
            std::ofstream(o_.write, std::ios::binary)
                .write(reinterpret_cast<const char*>(b.data()),
                       static_cast<std::streamsize>(b.size()));
        support::allocations const memory(t_.memory(b.size()));
        try {
            t_.run(b);
            ++accepted_;
        } catch (const cairn::error& e) {
            ++refused_;
            if (!support::is_about_content(e)) complain(e.what());
        } catch (const std::exception& x) {
            complain(x.what());
        }
        if (memory.exceeded()) complain("memory far beyond the size of its input");
        most_ = std::max(most_, memory.peak());
    }

    const fuzz::target& t_;
    const options& o_;
    std::vector<fuzz::input> corpus_;
    std::uint64_t accepted_ = 0, refused_ = 0, findings_ = 0;
    std::size_t most_ = 0;  // bytes of memory at once
};

}  // namespace

int main(int argc, char** argv) {
    auto const o = parse(argc, argv);
    if (!o) {
        std::fputs(usage, stderr);
        return 2;
    }
#ifdef CAIRN_SANITIZED
    __sanitizer_set_death_callback(name_it);
#else
    for (int s : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(s, died);
#endif
    std::signal(SIGALRM, tick);
    ::alarm(60);
    std::uint64_t executions = 0, findings = 0;
    int passed = 0, failed = 0;
    for (auto const& t : fuzz::targets) {
        if (!is_chosen(o->targets, t.name)) continue;
        runner r(t, *o);
        auto const found = r.run();
        findings += found;
        ++(found == 0 ? passed : failed);
        executions += r.executions;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    std::printf("%llu executions, %llu findings\n", static_cast<unsigned long long>(executions),
                static_cast<unsigned long long>(findings));
    return findings == 0 && executions != 0 ? 0 : 1;
}
