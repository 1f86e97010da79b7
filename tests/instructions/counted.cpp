// SPDX-License-Identifier: Apache-2.0
// What planning, metadata and groups cost, on inputs that never change: valgrind counts the
// instructions of `measured`, and count_instructions.py compares them with those that are recorded.
//
//     counted NAME      runs one of them; without a name: lists all names
#include "support/form_group.hpp"
#include "support/planned_job.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/reshard.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

std::function<void()> work;

}  // namespace

/// What is counted. Not inlined: valgrind begins to count as it is entered.
extern "C" [[gnu::noinline]] void measured() {
    work();
}

namespace {

using support::job_coordinator;
using support::planned_job;
using bytes = std::vector<std::byte>;

const planned_job rows{32, 100, false}, grid{32, 100, true};

std::vector<bytes> plans_of(const planned_job& j) {
    std::vector<bytes> all;
    for (int rank = 0; rank < j.ranks; ++rank) all.push_back(j.message_of(rank));
    return all;
}
/// What the coordinator does with the plans of all ranks, and sends to each.
void coordinate(job_coordinator& c, const planned_job& j, const std::vector<bytes>& received) {
    c.join(received);
    for (int rank = 0; rank < j.ranks; ++rank) (void)c.answer(rank);
}
void place(job_coordinator& c, const std::vector<bytes>& results) {
    c.begin_results();
    for (std::size_t r = 0; r < results.size(); ++r) c.place(static_cast<int>(r), results[r]);
    c.end_results();
}
std::vector<bytes> results_of(const job_coordinator& c, const planned_job& j) {
    std::vector<bytes> all;
    for (int rank = 0; rank < j.ranks; ++rank) all.push_back(c.result_of(rank));
    return all;
}
/// A save in which all ranks have sent their plans, before it is coordinated.
struct begun {
    std::vector<bytes> received{};
    std::shared_ptr<job_coordinator> by{};

    explicit begun(const planned_job& j, std::shared_ptr<cairn::detail::plan_slot> slot = {})
        : received(plans_of(j)), by(std::make_shared<job_coordinator>(j, std::move(slot))) {
        (void)by->send_local(j.plan_of(0));
    }
};
/// One that is complete, with its metadata.
std::shared_ptr<job_coordinator> saved(const planned_job& j,
                                       std::shared_ptr<cairn::detail::plan_slot> slot = {}) {
    begun const b(j, std::move(slot));
    b.by->join(b.received);
    b.by->receive(b.by->answer(0));
    place(*b.by, results_of(*b.by, j));
    return b.by;
}

/// `n` boxes that split a tensor along its rows.
std::vector<cairn::box> split(std::int64_t n) {
    constexpr std::int64_t all = 1 << 20;
    std::vector<cairn::box> out;
    for (std::int64_t i = 0; i < n; ++i)
        out.push_back({{all * i / n, 0}, {all * (i + 1) / n - all * i / n, 64}});
    return out;
}

/// Name → prepares the inputs, and returns what is counted.
const std::map<std::string, std::function<std::function<void()>()>> all_work{
    {"a plan of one rank", [] { return [j = rows] { (void)j.planned(1); }; }},
    {"plans of all ranks, by rows",
     [] { return [b = begun(rows)] { coordinate(*b.by, rows, b.received); }; }},
    {"plans of all ranks, on a grid",
     [] { return [b = begun(grid)] { coordinate(*b.by, grid, b.received); }; }},
    {"plans that are unchanged",
     [] {
         auto const slot = std::make_shared<cairn::detail::plan_slot>();
         (void)saved(rows, slot);
         auto const by = std::make_shared<job_coordinator>(rows, slot);
         auto const votes = std::vector<bytes>(static_cast<std::size_t>(rows.ranks),
                                               by->send_local(rows.plan_of(0)));
         return [by, votes] { coordinate(*by, rows, votes); };
     }},
    {"results of all ranks",
     [] {
         begun const b(rows);
         b.by->join(b.received);
         return [by = b.by, results = results_of(*b.by, rows)] { place(*by, results); };
     }},
    {"metadata written, with its pickle",
     [] {
         return [m = saved(rows)->take_metadata()] {
             (void)cairn::format::native::make_metadata_file(m);
         };
     }},
    {"metadata written, index alone",
     [] {
         return [m = saved(rows)->take_metadata()] {
             (void)cairn::format::native::make_metadata_file(m, false);
         };
     }},
    {"index read and checked",
     [] {
         return [b = cairn::format::native::make_metadata_file(saved(rows)->take_metadata())] {
             auto const file = cairn::format::native::parse_metadata_file(b);
             cairn::check_metadata(file.meta);
         };
     }},
    {"pickle read",
     [] {
         return [b = cairn::format::native::make_metadata_file(saved(rows)->take_metadata())] {
             std::size_t used = 0;
             (void)cairn::format::torch::parse_metadata_pickle(b, &used);
         };
     }},
    {"boxes of a tensor checked",
     [] {
         return [b = split(4096)] {
             cairn::check_coverage("w", {1 << 20, 64}, b,
                                   [](std::size_t) { return std::string(); });
         };
     }},
    {"a group of 2000, at rank 0", [] { return [] { (void)support::form_group(2000, 32); }; }},
    {"another number of ranks",
     [] {
         cairn::chunk_list have;
         for (auto const& b : split(4096)) have.push_back({b, {}});
         return [have, want = split(3072)] { (void)cairn::create_read_items("w", 0, have, want); };
     }},
};

}  // namespace

int main(int argc, char** argv) {
    if (argc == 1) {
        for (auto const& [name, prepare] : all_work) std::printf("%s\n", name.c_str());
        return 0;
    }
    try {
        work = all_work.at(argv[1])();
        measured();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "counted: %s\n", e.what());
        return 1;
    }
}
