// SPDX-License-Identifier: Apache-2.0
// What planning and metadata cost, on inputs that never change: valgrind counts the instructions of
// `measured`, and count_instructions.py compares them with those that are recorded.
//
//     counted NAME      runs one of them; without a name: lists all names
#include "support/planned_job.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/save/place_results.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
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

using support::planned_job;
using bytes = std::vector<std::byte>;

const planned_job rows{32, 100, false}, grid{32, 100, true};

std::vector<bytes> plans_of(const planned_job& j) {
    std::vector<bytes> all;
    for (int rank = 0; rank < j.ranks; ++rank) all.push_back(j.plan_of(rank));
    return all;
}
/// What the coordinator does with the plans of all ranks, and sends to each.
struct coordinated {
    std::vector<cairn::save_plan> plans{};
    std::vector<bytes> sent{};
    cairn::metadata meta{};

    explicit coordinated(const std::vector<bytes>& received) {
        for (auto const& m : received) plans.push_back(cairn::decode_save_plan(m));
        cairn::torch_writer writer{cairn::memory_store()};
        writer.reset("");
        writer.set_up_writer(
            {0, static_cast<int>(received.size()), true, std::string(32, 'a'), {}, {}});
        auto global = cairn::default_planner().create_global_save_plan(std::move(plans));
        meta = std::move(global.second);
        plans = writer.prepare_global_save_plan(std::move(global.first));
        for (auto const& p : plans) sent.push_back(cairn::encode_save_plan(p));
    }
    std::vector<bytes> results() const {
        std::vector<bytes> all;
        for (auto const& p : plans) all.push_back(planned_job::result_of(p));
        return all;
    }
    void place(const std::vector<bytes>& results) {
        cairn::detail::result_placer placer(meta);
        for (std::size_t r = 0; r < results.size(); ++r)
            placer.place(plans[r], cairn::decode_write_results(results[r]), static_cast<int>(r));
        placer.check_all_placed();
        meta.save_id = std::string(32, 'a');
    }
};
/// The metadata of a whole save.
cairn::metadata saved(const planned_job& j) {
    coordinated c(plans_of(j));
    c.place(c.results());
    return std::move(c.meta);
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
    {"a plan of one rank", [] { return [j = rows] { (void)j.plan_of(1); }; }},
    {"plans of all ranks, by rows", [] { return [p = plans_of(rows)] { (void)coordinated(p); }; }},
    {"plans of all ranks, on a grid",
     [] { return [p = plans_of(grid)] { (void)coordinated(p); }; }},
    {"results of all ranks",
     [] {
         coordinated c(plans_of(rows));
         return [results = c.results(), c]() mutable { c.place(results); };
     }},
    {"metadata written, with its pickle",
     [] { return [m = saved(rows)] { (void)cairn::format::native::make_metadata_file(m); }; }},
    {"metadata written, index alone",
     [] {
         return [m = saved(rows)] { (void)cairn::format::native::make_metadata_file(m, false); };
     }},
    {"index read and checked",
     [] {
         return [b = cairn::format::native::make_metadata_file(saved(rows))] {
             auto const file = cairn::format::native::parse_metadata_file(b);
             cairn::check_metadata(file.meta);
         };
     }},
    {"pickle read",
     [] {
         return [b = cairn::format::native::make_metadata_file(saved(rows))] {
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
    {"another number of ranks",
     [] {
         std::vector<cairn::chunk> have;
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
