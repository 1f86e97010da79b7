// SPDX-License-Identifier: Apache-2.0
// What the coordinator of a save computes, for any number of ranks: their plans are decoded, made
// one, checked and sent back, and the locations that they report become the metadata, which is
// written and read. No bytes of tensors, no network: what other ranks do is left out of all times.
//
//     plan_scale [--ranks R] [--parameters P] [--mesh 1d|2d]
//
// Every parameter is sharded over all ranks: by rows, or by rows and over 8 by columns. One line of
// JSON: `first_s` and `second_s` are the seconds of two saves in a row, `decode_s`, `plan_s`,
// `send_s` and `results_s` the parts of the first; `metadata_write_s` those that make the bytes of
// .metadata, `metadata_read_s` those from the bytes to the location of one tensor's last chunk;
// `metadata_bytes` their number, and `maxrss_mb` the most memory of this process.
#include "gpt2/process.hpp"
#include "support/planned_job.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/save/place_results.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

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
    double decode = 0, plan = 0, send = 0, results = 0;
    double all() const { return decode + plan + send + results; }
};

/// One save, by the coordinator.
cairn::metadata save(const planned_job& j, const messages& received, cairn::torch_writer& writer,
                     times& took) {
    std::string const id(32, 'a');
    writer.reset("");
    writer.set_up_writer({0, j.ranks, true, id, {}, {}});
    cairn::default_planner planner;
    std::vector<cairn::save_plan> plans;
    timed(took.decode, [&] {
        for (auto const& m : received) plans.push_back(cairn::decode_save_plan(m));
    });
    cairn::metadata meta;
    timed(took.plan, [&] {
        auto made = planner.create_global_save_plan(std::move(plans));
        meta = std::move(made.second);
        plans = writer.prepare_global_save_plan(std::move(made.first));
    });
    messages sent;
    timed(took.send, [&] {
        for (auto const& p : plans) sent.push_back(cairn::encode_save_plan(p));
    });
    // A rank at a time: its results are not kept.
    double others = 0;
    timed(took.results, [&] {
        cairn::detail::result_placer placer(meta);
        for (int rank = 0; rank < j.ranks; ++rank) {
            auto const& plan = plans[static_cast<std::size_t>(rank)];
            std::vector<std::byte> told;
            timed(others, [&] { told = planned_job::result_of(plan); });
            placer.place(plan, cairn::decode_write_results(told), rank);
        }
        placer.check_all_placed();
    });
    took.results -= others;
    meta.save_id = id;
    return meta;
}

planned_job parsed(int argc, char** argv) {
    planned_job j;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const option = argv[i], word = argv[i + 1];
        if (option == "--ranks")
            j.ranks = std::atoi(argv[i + 1]);
        else if (option == "--parameters")
            j.parameters = std::atoi(argv[i + 1]);
        else if (option == "--mesh" && (word == "1d" || word == "2d"))
            j.two_dimensions = word == "2d";
        else
            j.ranks = 0;
    }
    if (argc % 2 == 0 || j.ranks < 1 || j.parameters < 1 ||
        (j.two_dimensions && j.ranks % planned_job::columns != 0))
        throw std::invalid_argument(
            "usage: plan_scale [--ranks R] [--parameters P] [--mesh 1d|2d]; "
            "2d: a multiple of 8 ranks");
    return j;
}

void run(const planned_job& j) {
    messages received;
    for (int rank = 0; rank < j.ranks; ++rank) received.push_back(j.plan_of(rank));
    cairn::torch_writer writer{cairn::memory_store()};
    times first, second;
    (void)save(j, received, writer, first);
    auto meta = save(j, received, writer, second);
    double writing = 0, reading = 0;
    std::vector<std::byte> bytes;
    timed(writing, [&] { bytes = cairn::format::native::make_metadata_file(meta); });
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
        "\"second_s\": %.4f, \"decode_s\": %.4f, \"plan_s\": %.4f, \"send_s\": %.4f, "
        "\"results_s\": %.4f, \"metadata_write_s\": %.4f, \"metadata_read_s\": %.4f, "
        "\"metadata_bytes\": %zu, \"maxrss_mb\": %.1f}\n",
        j.ranks, j.parameters, j.two_dimensions ? "2d" : "1d", first.all(), second.all(),
        first.decode, first.plan, first.send, first.results, writing, reading, bytes.size(),
        gpt2::peak_mb());
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(parsed(argc, argv));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "plan_scale: %s\n", e.what());
        return 1;
    }
}
