// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_PROCESSES_HPP
#define CAIRN_TEST_TRAINING_PROCESSES_HPP

#include "runs.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

/// A program that runs a plan in one process, resumes it in another, and compares:
///
///     PROGRAM DIR            both, each a process of its own, and the comparison
///     PROGRAM DIR whole      the run without a break
///     PROGRAM DIR resumed    the other one, after it
namespace training {

inline void write(const std::filesystem::path& to, const std::vector<float>& v) {
    std::ofstream f(to, std::ios::binary);
    f.write(reinterpret_cast<const char*>(v.data()),
            static_cast<std::streamsize>(v.size() * sizeof(float)));
    if (!f.flush()) throw std::runtime_error("cannot write " + to.string());
}
inline std::vector<float> read(const std::filesystem::path& from) {
    std::vector<float> v(std::filesystem::file_size(from) / sizeof(float));
    std::ifstream f(from, std::ios::binary);
    f.read(reinterpret_cast<char*>(v.data()),
           static_cast<std::streamsize>(v.size() * sizeof(float)));
    if (!f) throw std::runtime_error("cannot read " + from.string());
    return v;
}

/// Runs this program once more, as a process of its own.
inline void run_again(std::string dir, std::string part) {
    std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    char* const arguments[] = {self.data(), dir.data(), part.data(), nullptr};
    ::pid_t child = 0;
    if (int const e = ::posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ))
        throw std::system_error(e, std::generic_category(), "posix_spawn");
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0)
        throw std::runtime_error("the process of the run '" + part + "' has failed");
}

/// @param run  `run(dir, part)` returns the `run_result` of a part, with its checkpoints in `dir`.
template <class F>
int compare_runs(int argc, char** argv, const run_plan& plan, F run) {
    try {
        if (argc < 2) throw std::runtime_error("usage: DIR [whole|resumed]");
        std::filesystem::path const dir = argv[1];
        if (argc > 2) {
            std::string const part = argv[2];
            run_result const r = run((dir / "checkpoints").string(), part);
            write(dir / (part + ".losses"), r.losses);
            write(dir / (part + ".content"), r.content);
            return 0;
        }
        std::filesystem::remove_all(dir);
        std::filesystem::create_directories(dir);
        std::vector<run_result> results;
        for (std::string const part : {"whole", "resumed"}) {
            run_again(dir.string(), part);
            results.push_back({read(dir / (part + ".losses")), read(dir / (part + ".content"))});
        }
        std::filesystem::remove_all(dir);
        auto const& whole = results[0];
        if (auto const d = difference(plan, whole, results[1]); !d.empty())
            throw std::runtime_error("resumed after step " + std::to_string(plan.resumed_after) +
                                     ": " + d);
        if (!has_learned(whole)) throw std::runtime_error("the model has learned nothing");
        std::printf(
            "%zu numbers of weights and optimizer state and the losses of steps %lld to "
            "%lld (%g; at first %g): equal in every bit when resumed\n",
            whole.content.size(), static_cast<long long>(plan.resumed_after + 1),
            static_cast<long long>(plan.steps), static_cast<double>(whole.losses.back()),
            static_cast<double>(whole.losses.front()));
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
}

}  // namespace training

#endif
