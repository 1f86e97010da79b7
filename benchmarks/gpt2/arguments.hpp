// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_BENCHMARKS_GPT2_ARGUMENTS_HPP
#define CAIRN_BENCHMARKS_GPT2_ARGUMENTS_HPP

#include "layouts.hpp"

#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gpt2 {

inline constexpr const char* usage_text =
    "usage: gpt2 save|load|async DIR [--ranks N] [--steps K] [--sync 0|1] [--check] "
    "[--timeout S] [--group tcp|mpi|nccl] [--replicas POLICY[,POLICY]...] "
    "[--bare buffered|direct|curl|transpose] "
    "[--one-file] [--format dcp|safetensors] [--max-file-size BYTES] [--weights] [--columns] "
    "[--layout stored|names|rows|columns|transposed] "
    "[--stage blocking|fresh|arena|frozen] [--budget BYTES] [--foreground] [--overlap] "
    "[--polite] [--page-cache] [--unsigned]\n"
    "       gpt2 copy FROM TO [--files N] [--threads N] [--steps K]\n"
    "       gpt2 sum FROM [--threads N] [--steps K]\n";

struct arguments {
    std::string mode, dir, to{};
    std::string group = "tcp", stage{}, bare{}, format = "dcp", layout = "stored";
    std::vector<std::string> replicas{};
    int ranks = 1, steps = 1, timeout = 0, files = 1, threads = cairn::threads_per_rank(1);
    std::uint64_t budget = cairn::arena_options::no_limit, max_file_size = 0;
    bool sync = true, check = false, foreground = false, overlap = false, polite = false;
    bool one_file = false;  ///< All ranks of a bare save write one.
    bool weights = false, columns = false;
    bool page_cache = false;         ///< Saves and loads through the page cache, whatever is in it.
    bool unsigned_payloads = false;  ///< Signatures of requests to a bucket leave these out.
    cairn::progress_line progress{};

    bool in_bucket() const { return dir.starts_with("s3://"); }
    bool is_mapped() const { return layout != "stored"; }
    bool transposes() const { return bare == "transpose"; }
    bool is_safetensors() const { return format == "safetensors"; }
    /// Of each exchange; none unless asked for.
    std::chrono::milliseconds exchange_timeout() const {
        return timeout == 0 ? cairn::no_timeout : std::chrono::seconds(timeout);
    }
};

/// As `load_options::read_once_from`.
inline const std::map<std::string, std::uint64_t> ways_to_load{{"each", cairn::read_once_never},
                                                               {"once", 0}};
inline const std::map<std::string, cairn::replica_policy> ways_to_save{
    {"trust", cairn::replica_policy::trust},
    {"sampled", cairn::replica_policy::sampled},
    {"verify", cairn::replica_policy::verify}};
/// What `start_step` in background.hpp knows.
inline const std::set<std::string> ways_to_stage{"blocking", "fresh", "arena", "frozen"};

inline std::vector<std::string> split(const std::string& words) {
    std::istringstream in(words);
    std::vector<std::string> all;
    for (std::string word; std::getline(in, word, ',');) all.push_back(word);
    return all;
}

/// Whether no option is given that its mode would ignore, and every word is known.
inline bool consistent(const arguments& a) {
    if (a.mode == "copy" || a.mode == "sum")
        return a.files > 0 && a.threads > 0 && a.steps > 0 && a.to.empty() == (a.mode == "sum");
    if (a.format != "dcp" && !a.is_safetensors()) return false;
    if (a.max_file_size != 0 && !a.is_safetensors()) return false;
    if (a.is_safetensors() && (a.mode == "async" || !a.bare.empty())) return false;
    if (a.one_file && (a.mode != "save" || a.bare != "buffered")) return false;
    if (a.page_cache && (a.mode == "async" || !a.bare.empty())) return false;
    bool const limited = a.budget != cairn::arena_options::no_limit;
    if (a.in_bucket() && (a.mode == "async" || a.page_cache)) return false;
    if (a.unsigned_payloads && (!a.in_bucket() || !a.bare.empty())) return false;
    if (a.mode == "async") {
        if (a.is_mapped()) return false;
        if (!a.replicas.empty() || !a.bare.empty() || ways_to_stage.count(a.stage) == 0)
            return false;
        if (limited && a.stage != "arena") return false;
        if (a.foreground && a.stage == "blocking") return false;
        if (a.overlap && (!a.foreground || a.stage != "arena")) return false;
    } else if (a.mode == "save" || a.mode == "load") {
        if (a.foreground || a.overlap || a.polite || limited || !a.stage.empty()) return false;
        if (!a.bare.empty() && !a.replicas.empty()) return false;
        if (layout_names.count(a.layout) == 0) return false;
        if (a.transposes() && (a.mode != "load" || a.layout != "transposed")) return false;
        if (a.is_mapped() && !a.transposes() &&
            (!a.bare.empty() || !a.replicas.empty() || a.is_safetensors()))
            return false;
        if (!a.bare.empty() && !a.transposes() &&
            (a.in_bucket() ? a.bare != "curl" : a.bare != "buffered" && a.bare != "direct"))
            return false;
    } else {
        return false;
    }
    return a.ranks > 0 && a.steps > 0 &&
           (a.group == "tcp" || a.group == "mpi" || a.group == "nccl") &&
           std::all_of(a.replicas.begin(), a.replicas.end(), [&](const std::string& p) {
               return a.mode == "save" ? ways_to_save.count(p) != 0 : ways_to_load.count(p) != 0;
           });
}

inline bool parse(int argc, char** argv, arguments& a) {
    if (argc < 3) return false;
    a.mode = argv[1];
    a.dir = argv[2];
    if (a.mode == "async") a.stage = "arena";
    int first = 3;
    if (a.mode == "copy") {
        if (argc < 4) return false;
        a.to = argv[first++];
    }
    for (int i = first; i < argc; ++i) {
        std::string const o = argv[i];
        if (auto* const flag = o == "--check"        ? &a.check
                               : o == "--foreground" ? &a.foreground
                               : o == "--overlap"    ? &a.overlap
                               : o == "--polite"     ? &a.polite
                               : o == "--page-cache" ? &a.page_cache
                               : o == "--one-file"   ? &a.one_file
                               : o == "--weights"    ? &a.weights
                               : o == "--columns"    ? &a.columns
                               : o == "--unsigned"   ? &a.unsigned_payloads
                                                     : nullptr) {
            *flag = true;
            continue;
        }
        if (i + 1 >= argc) return false;
        std::string const word = argv[++i];
        int const v = std::atoi(word.c_str());
        if (o == "--group")
            a.group = word;
        else if (o == "--bare")
            a.bare = word;
        else if (o == "--layout")
            a.layout = word;
        else if (o == "--format")
            a.format = word;
        else if (o == "--budget")
            a.budget = std::strtoull(word.c_str(), nullptr, 10);
        else if (o == "--max-file-size")
            a.max_file_size = std::strtoull(word.c_str(), nullptr, 10);
        else if (o == "--files")
            a.files = v;
        else if (o == "--threads")
            a.threads = v;
        else if (o == "--stage")
            a.stage = word;
        else if (o == "--replicas")
            a.replicas = split(word);
        else if (o == "--ranks")
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
    return consistent(a);
}

}  // namespace gpt2

#endif
