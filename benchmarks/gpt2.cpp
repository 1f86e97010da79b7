// SPDX-License-Identifier: Apache-2.0
// Saves and loads the state of GPT-2 124M and Adam, 1.49 GB, rows sharded over ranks:
//
//     gpt2 save|load|async DIR [--ranks N] [--steps K] [--sync 0|1] [--check] [--timeout S]
//               [--group tcp|mpi|nccl] [--replicas POLICY[,POLICY]...]
//               [--bare buffered|direct|curl|transpose]
//               [--stage blocking|fresh|arena|frozen] [--budget BYTES] [--foreground]
//               [--overlap] [--polite] [--page-cache] [--one-file] [--weights] [--columns]
//               [--format dcp|safetensors] [--max-file-size BYTES] [--unsigned]
//               [--layout stored|names|rows|columns|transposed]
//     gpt2 copy FROM TO [--files N] [--threads N] [--steps K]
//     gpt2 sum FROM [--threads N] [--steps K]
//
// Ranks are the processes of a launcher (cairn launch, torchrun, Open MPI, Slurm) or N threads.
// `save` alternates between DIR/s0 and DIR/s1; `load` reads DIR/s0; with --page-cache neither uses
// direct I/O. Prints one line of JSON: for each step the time of the slowest rank, and the
// processor time of all; of the last step the phases, with the milliseconds of the slowest rank of
// each.
//
// With --bare the same bytes are moved from and to the same memory with checksums and syncs, a file
// for each thread, and without a checkpoint: the limit. On as many ranks as have saved, a bare load
// reads what each has written, otherwise equal parts, whose elements are not where they belong.
//
// DIR may be a place in a bucket, `s3://BUCKET/PREFIX`: the server and keys are those that the
// environment names. `requests` are those of all ranks in a step. --bare curl is the limit there:
// as many requests at once, of the same sizes and with the same checksums, by libcurl alone. With
// --unsigned cairn does not sign payloads, as over https: a SHA-256 less at both ends.
//
// With --one-file all ranks write one file. `copy` reads files and writes their bytes, `sum` reads
// and adds them, with checksums, on a thread for each core: the limits of conversions and
// statistics.
//
// With --format safetensors the tensors are saved and loaded as safetensors, without the values,
// which the format does not have: in one file, or in several of --max-file-size. --weights leaves
// out the optimizer and the values. --columns shards columns instead of rows.
//
// With --layout the state has other names and shapes, which a mapping makes of the stored ones: see
// gpt2/layouts.hpp. --check then needs a checkpoint that was saved from this layout. With --bare
// transpose, the limit for transposed matrices, all of them are transposed, block by block, from
// memory to memory; no file is read.
//
// With --replicas every rank holds everything, as in pure data parallelism, and the steps take the
// policies in turn: `load` has each rank read it (each), or reads it once and broadcasts it (once);
// `save` compares what the ranks hold (trust, sampled, verify), and writes DIR/s0 only.
//
// `async` saves in the background. `stalls` are the seconds until the tensors may change: when they
// are copied to memory of that save alone (fresh) or to an arena that is kept (arena), or when the
// save has ended (blocking); if they never change, once the save is planned (frozen). `times` are
// those until the checkpoint exists. After each save all ranks copy the same bytes once more, with
// memcpy to memory whose pages are present (`memcpys`); `share_of_memcpy` is the rate of the stalls
// as a share of that rate, as median, least and most of the steps from the second on. `faults` are
// the page faults of all processes during the stall, `residents` the MB of memory that all of them
// have after a step, and `peaks` the most so far. --budget bounds the arena of each rank.
//
// With --foreground each rank computes in the meantime: `beside_median` and `beside_p99` are the
// seconds of a step of that while a save is written, `alone_median` and `alone_p99` those of as
// many steps without a save; of the slowest rank. With --overlap the first of these steps runs
// during the copy, and the stall is what remains of it. --polite gives the writers the lowest
// priority.
#include "gpt2/arguments.hpp"
#include "gpt2/background.hpp"
#include "gpt2/bare.hpp"
#include "gpt2/bucket.hpp"
#include "gpt2/figures.hpp"
#include "gpt2/file_loops.hpp"
#include "gpt2/groups.hpp"
#include "gpt2/process.hpp"
#include "gpt2/state.hpp"

#include <cairn/cairn.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using gpt2::arguments;
using gpt2::result;

std::atomic<bool> wrong_anywhere{false};

/// Where a rank saves and loads, and what it keeps from step to step.
class place {
public:
    place(const arguments& a, const gpt2::state& s) : a_(a) {
        if (a.transposes()) transposing_.emplace(s);
        if (!a.in_bucket()) return;
        if (a.bare.empty()) bucket_.emplace(a.dir, a.unsigned_payloads);
    }

    /// Calls `f` with the store.
    template <class F>
    auto with_store(F f) {
        if (bucket_) return f(bucket_->store());
        cairn::file_store_options o;
        if (a_.page_cache) o.direct_writes = o.direct_reads = false;
        cairn::file_store files({}, o);
        return f(files);
    }
    /// Moves bytes alone. @return whether it has
    template <class Comm>
    bool bare_save(gpt2::state& s, const std::string& id, Comm& ranks) {
        if (a_.bare.empty()) return false;
        if (a_.in_bucket())
            loop(id).save(s, ranks);
        else
            gpt2::bare::save(s, id, {a_, ranks.size()}, ranks);
        return true;
    }
    template <class Comm>
    bool bare_load(gpt2::state& s, const std::string& id, Comm& ranks) {
        if (a_.bare.empty()) return false;
        if (transposing_)
            transposing_->run(ranks);
        else if (a_.in_bucket())
            loop(id).load(s, ranks);
        else
            gpt2::bare::load(s, id, {a_, ranks.size()}, ranks);
        return true;
    }
    /// So far.
    std::uint64_t requests() const {
        return bucket_ ? bucket_->requests() : loop_ ? loop_->requests() : 0;
    }

private:
    gpt2::bare::bucket_loop& loop(const std::string& id) {
        if (!loop_) loop_.emplace(a_.dir);
        loop_->go_to(id);
        return *loop_;
    }

    const arguments& a_;
    std::optional<gpt2::bucket> bucket_{};
    std::optional<gpt2::bare::bucket_loop> loop_{};
    std::optional<gpt2::bare::transposing_loop> transposing_{};
};

template <class Comm, class Plane>
std::vector<cairn::phase_time> load(gpt2::state& s, const arguments& a, std::size_t step,
                                    Comm& ranks, Plane& plane, place& where) {
    auto const id = a.dir + "/s0";
    if (where.bare_load(s, id, ranks)) return {};
    cairn::load_options o;
    o.exchange_timeout = a.exchange_timeout();
    return where.with_store([&](auto& store) {
        if (s.made_by) return cairn::load(s, id, o, ranks, store, *s.made_by, a.progress).phases;
        if (a.replicas.empty()) return cairn::load(s, id, o, ranks, store, a.progress).phases;
        o.read_once_from = gpt2::ways_to_load.at(a.replicas[step % a.replicas.size()]);
        return cairn::load(s, id, o, ranks, plane, store, a.progress).phases;
    });
}

template <class Comm>
std::vector<cairn::phase_time> save(gpt2::state& s, const arguments& a, std::size_t step,
                                    Comm& ranks, place& where) {
    // Replicas overwrite one checkpoint; otherwise the previous one is kept beside the new one.
    auto const id = a.dir + (a.replicas.empty() && step % 2 != 0 ? "/s1" : "/s0");
    if (where.bare_save(s, id, ranks)) return {};
    cairn::save_options o;
    o.exchange_timeout = a.exchange_timeout();
    o.storage.sync_files = a.sync;
    if (!a.replicas.empty())
        o.replicas = gpt2::ways_to_save.at(a.replicas[step % a.replicas.size()]);
    return where.with_store([&](auto& store) {
        if (a.is_safetensors()) {
            cairn::safetensors_writer_options how;
            how.sync_files = a.sync;
            if (a.max_file_size != 0) how.max_file_size = a.max_file_size;
            return cairn::save(s, id, o, ranks, cairn::safetensors_writer(store, how), a.progress)
                .phases;
        }
        if (s.made_by) return cairn::save(s, id, o, ranks, store, *s.made_by, a.progress).phases;
        return cairn::save(s, id, o, ranks, store, a.progress).phases;
    });
}

template <class Comm, class Plane>
void run(const arguments& a, Comm& ranks, Plane& plane) {
    result mine;
    bool const whole = !a.replicas.empty();
    gpt2::state s(whole ? 0 : ranks.rank(), whole ? 1 : ranks.size(), a.mode != "load",
                  {a.weights, !a.is_safetensors(), a.columns, a.layout});
    gpt2::background kept(a.budget);
    place where(a, s);
    std::vector<cairn::phase_time> phases;
    mine.bytes = s.bytes();
    for (int k = 0; k < a.steps; ++k) {
        gpt2::wait_for_all(ranks);
        auto const cpu = gpt2::cpu_seconds();
        auto const requests = where.requests();
        auto const start = std::chrono::steady_clock::now();
        auto const step = static_cast<std::size_t>(k);
        if (a.mode == "async") {
            if constexpr (cairn::BackgroundCommunicator<Comm>)
                gpt2::async_step(s, a, step, ranks, kept, mine);
            else
                throw std::runtime_error("async: this group has no exchanges in the background");
        } else {
            phases = a.mode == "save" ? save(s, a, step, ranks, where)
                                      : load(s, a, step, ranks, plane, where);
            auto const took = gpt2::seconds_since(start);
            for (auto const c : {result::times, result::stalls}) mine.steps[c].push_back(took);
            for (auto const c : {result::memcpys, result::faults}) mine.steps[c].push_back(0);
            mine.steps[result::residents].push_back(gpt2::resident_mb());
            mine.steps[result::peaks].push_back(gpt2::peak_mb());
            mine.steps[result::requests].push_back(
                static_cast<double>(where.requests() - requests));
            for (auto const& [name, c] : result::foreground_columns) mine.steps[c].push_back(0);
        }
        mine.steps[result::cpus].push_back(gpt2::cpu_seconds() - cpu);
    }
    if (a.check) mine.wrong = s.wrong(a.bare.empty());
    if (mine.wrong != 0) wrong_anywhere = true;
    // Figures are taken once all ranks have ended: threads share a process.
    gpt2::wait_for_all(ranks);
    mine.maxrss_kib = static_cast<double>(gpt2::usage().ru_maxrss);
    mine.cpu_s = gpt2::cpu_seconds();
    mine.process = static_cast<std::uint64_t>(getpid());
    auto const got = cairn::await_completion<std::vector<cairn::message>>(
        [&](auto done) { ranks.gather(mine.encode(), 0, cairn::no_deadline, std::move(done)); });
    if (ranks.rank() != 0) return;
    std::vector<result> all;
    for (auto const& m : got) all.push_back(result::decode(m));
    gpt2::print(a.mode, a.stage, a.check, all, phases);
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (!gpt2::parse(argc, argv, a)) {
        std::fputs(gpt2::usage_text, stderr);
        return 2;
    }
    try {
        if (a.mode == "copy" || a.mode == "sum")
            gpt2::bare::run_file_loop(a);
        else
            gpt2::run_over(a.group, a.ranks,
                           [&](auto& ranks, auto& plane) { run(a, ranks, plane); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gpt2: %s\n", e.what());
        return 1;
    }
    return wrong_anywhere ? 1 : 0;
}
