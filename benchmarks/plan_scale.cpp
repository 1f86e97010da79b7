// SPDX-License-Identifier: Apache-2.0
// Measures what the coordinator of a save computes, for any number of ranks: their plans are
// decoded, joined and checked, each is sent what to omit from its own, and the locations that they
// report become the metadata, which is written and read. No bytes of tensors, no network: no time
// includes the work of other ranks.
//
//     plan_scale [--ranks R] [--parameters P] [--mesh 1d|2d] [--mapped 0|1] [--rounds K]
//                [--write FILE]
//
// Every parameter is sharded over all ranks: by rows, or by rows and over 8 by columns. One line of
// JSON: `first_s` and `second_s` are the seconds of two saves in a row, of which the second reuses
// the plan of the first, and `*_plan_s`, `*_send_s`, `*_results_s` their parts; `metadata_write_s`
// those that make the bytes of .metadata, `metadata_read_s` those from the bytes to the location of
// one tensor's last chunk; `metadata_bytes` their number, and `maxrss_mb` the most memory of this
// process. `rank_save_s` are those that one rank takes from its state to its plan of a save, and
// `rank_load_s` those from the metadata to its plan of a load. With --mapped the state has
// concatenations of three parameters each, side by side, and two more numbers are those of a rank
// that maps them to the same stored parameters. --write keeps the bytes of .metadata, for other
// readers. --rounds does all that K times, a line for each. The first touches all of its memory for
// the first time; glibc lets the others use it again with
// GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1000000000000.
#include "gpt2/process.hpp"
#include "support/planned_job.hpp"
#include "support/planned_rank.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/check.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using support::job_coordinator;
using support::planned_job;
using messages = std::vector<std::vector<std::byte>>;

/// Adds the seconds of `f()`.
template <class F>
void timed(double& seconds, F&& f) {
    auto const start = std::chrono::steady_clock::now();
    f();
    seconds += gpt2::seconds_since(start);
}

struct times {
    double plan = 0, send = 0, results = 0;
    double all() const { return plan + send + results; }
};

/// One save, by the coordinator.
/// @param received  Of all ranks; if empty, all send what the coordinator's own rank does.
cairn::metadata save(const planned_job& j, messages received,
                     const std::shared_ptr<support::plan_slot>& slot, times& took) {
    job_coordinator c(j, slot);
    auto const own = c.send_local(j.plan_of(0));
    auto const n = static_cast<std::size_t>(j.ranks);
    bool const unchanged = received.empty();
    if (unchanged) received.assign(n, own);
    timed(took.plan, [&] { c.join(std::move(received)); });
    messages sent;
    timed(took.send, [&] {
        for (int rank = 0; rank < j.ranks; ++rank) sent.push_back(c.answer(rank));
    });
    c.receive(sent[0]);
    // A rank at a time: its results are not kept.
    timed(took.results, [&] { c.begin_results(); });
    for (int rank = 0; rank < j.ranks; ++rank) {
        auto const result = c.result_of(rank);
        timed(took.results, [&] { c.place(rank, result); });
    }
    timed(took.results, [&] { c.end_results(); });
    if (c.reused() != unchanged) throw std::runtime_error("the wrong plan was used");
    return c.take_metadata();
}

/// The seconds that one rank takes for its plans.
struct rank_times {
    rank_times(const planned_job& j, bool mapped, const cairn::metadata& m) {
        support::planned_rank const r(j, mapped);
        auto copy = m;
        std::size_t saved = 0, loaded = 0;
        timed(save, [&] { saved = r.plan_save(); });
        timed(load, [&] { loaded = r.plan_load(std::move(copy)); });
        if (saved != static_cast<std::size_t>(j.parameters) || loaded != saved)
            throw std::runtime_error("not every parameter is planned");
    }
    double save = 0, load = 0;
};

struct arguments {
    planned_job job{};
    int rounds = 1;
    bool mapped = false;
    std::string file{};  ///< Empty: none.
};
arguments parsed(int argc, char** argv) {
    arguments a;
    auto& j = a.job;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const option = argv[i], word = argv[i + 1];
        if (option == "--ranks")
            j.ranks = std::atoi(argv[i + 1]);
        else if (option == "--parameters")
            j.parameters = std::atoi(argv[i + 1]);
        else if (option == "--mesh" && (word == "1d" || word == "2d"))
            j.two_dimensions = word == "2d";
        else if (option == "--rounds")
            a.rounds = std::atoi(argv[i + 1]);
        else if (option == "--mapped")
            a.mapped = word != "0";
        else if (option == "--write")
            a.file = word;
        else
            j.ranks = 0;
    }
    if (argc % 2 == 0 || j.ranks < 1 || j.parameters < 1 || a.rounds < 1 ||
        (j.two_dimensions && a.mapped) || (j.two_dimensions && j.ranks % planned_job::columns != 0))
        throw std::invalid_argument(
            "usage: plan_scale [--ranks R] [--parameters P] [--mesh 1d|2d] [--rounds K] "
            "[--write FILE] [--mapped 1]; 2d: a multiple of 8 ranks, not mapped");
    return a;
}

void run(const arguments& a) {
    auto const& j = a.job;
    auto const slot = std::make_shared<support::plan_slot>();
    times first, second;
    {
        messages received;
        for (int rank = 0; rank < j.ranks; ++rank) received.push_back(j.message_of(rank));
        (void)save(j, std::move(received), slot, first);
    }
    auto meta = save(j, {}, slot, second);
    double writing = 0, reading = 0;
    std::vector<std::byte> bytes;
    timed(writing, [&] { bytes = cairn::format::native::make_metadata_file(meta); });
    if (!a.file.empty()) {
        std::ofstream to(a.file, std::ios::binary);
        to.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
        if (!to.flush()) throw std::runtime_error(a.file + " could not be written");
    }
    rank_times const rank(j, false, meta);
    std::optional<rank_times> mapped;
    if (a.mapped) mapped.emplace(j, true, meta);
    auto const last = meta.tensor(j.name(j.parameters / 2))->chunks.back();
    meta = {};
    timed(reading, [&] {
        auto const file = cairn::format::native::parse_metadata_file(bytes);
        cairn::check_metadata(file.meta);
        auto const* t = file.meta.tensor(j.name(j.parameters / 2));
        bool found = false;
        for (auto const& c : t->chunks) found = found || c == last;
        if (!found) throw std::runtime_error("what was written is not what is read");
    });
    std::printf(
        "{\"ranks\": %d, \"parameters\": %d, \"mesh\": \"%s\", \"first_s\": %.4f, "
        "\"first_plan_s\": %.4f, \"first_send_s\": %.4f, \"first_results_s\": %.4f, "
        "\"second_s\": %.4f, \"second_plan_s\": %.4f, \"second_send_s\": %.4f, "
        "\"second_results_s\": %.4f, \"metadata_write_s\": %.4f, \"metadata_read_s\": %.4f, "
        "\"metadata_bytes\": %zu, \"rank_save_s\": %.4f, \"rank_load_s\": %.4f, ",
        j.ranks, j.parameters, j.two_dimensions ? "2d" : "1d", first.all(), first.plan, first.send,
        first.results, second.all(), second.plan, second.send, second.results, writing, reading,
        bytes.size(), rank.save, rank.load);
    if (mapped)
        std::printf("\"mapped_rank_save_s\": %.4f, \"mapped_rank_load_s\": %.4f, ", mapped->save,
                    mapped->load);
    std::printf("\"maxrss_mb\": %.1f}\n", gpt2::peak_mb());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        auto const a = parsed(argc, argv);
        for (int k = 0; k < a.rounds; ++k) run(a);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "plan_scale: %s\n", e.what());
        return 1;
    }
}
