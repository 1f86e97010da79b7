// SPDX-License-Identifier: Apache-2.0
// The suite over MPI: mpirun -n N test_mpi multiple|single
#include "support/scratch.hpp"

#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/comm/from_mpi.hpp>
#include <cairn/comm/mpi_group.hpp>
#include <cairn/testing/communicator.hpp>

#include <boost/asio/use_future.hpp>

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using cairn::errc;
using namespace std::chrono_literals;

int world_rank = 0, world_size = 1;

void expect(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}
bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
/// Of an error with this code, its text.
template <class F>
std::string refusal(errc code, F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        expect(e.code() == cairn::make_error_code(code), "another error: " + std::string(e.what()));
        return e.what();
    }
    throw std::runtime_error("no error");
}
using cairn::mpi_group;
template <class Group>
void meet(Group& g, cairn::deadline d = cairn::no_deadline) {
    (void)cairn::await_completion<cairn::message>(
        [&](auto done) { g.broadcast({}, 0, d, std::move(done)); });
}
void everybody() {
    MPI_Barrier(MPI_COMM_WORLD);
}

/// Some of the world's ranks: MPI_COMM_NULL on the others.
class part {
public:
    part(bool in, int order = 0) {
        MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, order, &comm_);
    }
    part(part&&) = delete;
    ~part() {
        if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    }
    bool in() const { return comm_ != MPI_COMM_NULL; }
    MPI_Comm comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

int passed = 0, failed = 0;

/// One case is passed when it is on every rank. Called on all.
void check(const std::string& name, const std::function<void()>& f) {
    std::string why;
    try {
        f();
    } catch (const std::exception& e) {
        why = *e.what() == '\0' ? "an exception" : e.what();
    }
    int bad = why.empty() ? 0 : 1, all = 0;
    if (bad != 0)
        std::fprintf(stderr, "error: %s: on rank %d: %s\n", name.c_str(), world_rank, why.c_str());
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    (all == 0 ? passed : failed)++;
    if (world_rank == 0) std::printf("%s %s\n", all == 0 ? "ok     " : "FAILED ", name.c_str());
    std::fflush(stdout);
}

void check_suite() {
    for (int fan_in : {2, 32}) {
        check("keeps its word, fan-in " + std::to_string(fan_in), [&] {
            // Each rank of an all_gather has all of it.
            auto const largest = std::size_t{1} << (world_size > 4 ? 18 : 22);
            auto const failures = cairn::testing::communicator_suite(
                [&] { return mpi_group(MPI_COMM_WORLD, {.fan_in = fan_in}); }, largest);
            for (auto const& f : failures) expect(false, f);
            mpi_group const g(MPI_COMM_WORLD);
            expect(g.rank() == world_rank && g.size() == world_size, "another rank or size");
        });
    }
    if (world_size == 2) {
        check("256 MiB in one message", [] {
            mpi_group g(MPI_COMM_WORLD);
            auto const sent = cairn::testing::detail::sample(1, 1, std::size_t{1} << 28);
            auto const got = cairn::await_completion<cairn::message>(
                [&](auto done) { g.broadcast(sent, 1, cairn::no_deadline, std::move(done)); });
            expect(got == sent, "other bytes");
        });
    }
    check("groups do not mix", [] {
        part const turned(true, -world_rank);  // the same ranks, in another order
        mpi_group one(MPI_COMM_WORLD), two(MPI_COMM_WORLD), three(turned.comm());
        expect(three.rank() == world_size - 1 - world_rank, "another order");
        cairn::testing::check_interleaved(one, two);
        cairn::testing::check_interleaved(two, three);
    });
    check("a part of the ranks", [] {
        mpi_group all(MPI_COMM_WORLD);
        part const some(world_rank % 2 == 0);
        if (some.in()) {
            mpi_group g(some.comm());
            cairn::testing::check_exchanges(g, 1024);
        }
        meet(all);
    });
}

/// With any thread level.
void check_bootstrap() {
    check("a group over TCP for the ranks of a communicator", [] {
        auto g = cairn::tcp_group_from_mpi(MPI_COMM_WORLD);
        expect(g.rank() == world_rank && g.size() == world_size, "another rank or size");
        cairn::testing::check_exchanges(g, 1024);
        part const some(world_rank % 2 == 0);
        if (!some.in()) return;
        auto half = cairn::tcp_group_from_mpi(some.comm());
        cairn::testing::check_exchanges(half, 1024);
    });
    check("rank 0 has no id: all hear why", [] {
        if (world_size == 1) return;
        cairn::tcp_options o;
        if (world_rank == 0) o.interfaces = "no-such-interface";
        auto const what = refusal(errc::invalid_argument,
                                  [&] { (void)cairn::tcp_group_from_mpi(MPI_COMM_WORLD, o); });
        expect(contains(what, "no-such-interface"), what);
    });
    check("no group over TCP for MPI_COMM_NULL", [] {
        auto const what =
            refusal(errc::invalid_argument, [] { (void)cairn::tcp_group_from_mpi(MPI_COMM_NULL); });
        expect(contains(what, "MPI_COMM_NULL"), what);
    });
}

void check_ends() {
    check("one that ends on all at once", [] {
        for (int i = 0; i < 20; ++i) {
            mpi_group g(MPI_COMM_WORLD, {.fan_in = 2});
            if (i % 2 == 0) meet(g);
        }
    });
    check("assigned to, and held by its own completion", [] {
        mpi_group g(MPI_COMM_WORLD);
        g = mpi_group(MPI_COMM_WORLD);
        meet(g);
        auto const held = std::make_shared<std::optional<mpi_group>>(std::move(g));
        std::atomic<int> over{0};
        (*held)->broadcast(
            {}, 0, cairn::no_deadline,
            cairn::completion<cairn::message>([held, &over](const auto& e, const auto&) {
                held->reset();
                over = e ? 2 : 1;
                over.notify_all();
            }));
        over.wait(0);
        expect(over == 1, "an exchange failed");
    });
    if (world_size < 2) return;
    check("a rank that leaves is named, and the rest make a new group", [] {
        int const gone = world_size / 2;
        std::optional<mpi_group> g(std::in_place, MPI_COMM_WORLD, cairn::mpi_options{.fan_in = 2});
        meet(*g);
        everybody();
        if (world_rank == gone) {
            g.reset();
        } else {
            auto const what = refusal(errc::rank_failed, [&] { meet(*g); });
            expect(contains(what, "rank " + std::to_string(gone) + " left the group"), what);
        }
        part const rest(world_rank != gone);
        if (!rest.in()) return;
        mpi_group again(rest.comm());
        meet(again);
    });
}

void check_misuse() {
    check("MPI_COMM_NULL", [] {
        part const first(world_rank == 0);
        if (first.in()) {
            mpi_group g(first.comm());
            meet(g);
            return;
        }
        auto const what = refusal(errc::invalid_argument, [&] { mpi_group g(first.comm()); });
        expect(contains(what, "MPI_COMM_NULL") && contains(what, "MPI_Comm_split"), what);
    });
    check("fan-ins that are none, or differ", [] {
        refusal(errc::invalid_argument, [] { mpi_group g(MPI_COMM_WORLD, {.fan_in = 0}); });
        refusal(errc::invalid_argument, [] { mpi_group g(MPI_COMM_WORLD, {.fan_in = INT32_MIN}); });
        if (world_size == 1) return;
        auto const what = refusal(errc::invalid_argument, [] {
            mpi_group g(MPI_COMM_WORLD, {.fan_in = world_rank == 0 ? 2 : 4});
        });
        expect(contains(what, world_rank == 0 ? "fan-in 2" : "fan-in 4"), what);
    });
    check("heartbeats without a pause, and peers that are dead before the first", [] {
        for (int const interval : {0, -1, 20000}) {
            auto const what = refusal(errc::invalid_argument, [&] {
                cairn::mpi_options o;
                o.liveness.heartbeat_interval = std::chrono::milliseconds(interval);
                mpi_group g(MPI_COMM_WORLD, o);
            });
            expect(contains(what, "above 0 and below peer_timeout"), what);
        }
    });
    if (world_size == 1) return;
    check("liveness options that differ", [] {
        auto const what = refusal(errc::invalid_argument, [] {
            cairn::mpi_options o;
            o.liveness.peer_timeout = std::chrono::seconds(world_rank == 0 ? 20 : 30);
            mpi_group g(MPI_COMM_WORLD, o);
        });
        expect(contains(what, world_rank == 0 ? "peer_timeout 20000 ms" : "peer_timeout 30000 ms"),
               what);
    });
    check("an inter-communicator", [] {
        MPI_Comm half = MPI_COMM_NULL, across = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 1, &across);
        auto const what = refusal(errc::invalid_argument, [&] { mpi_group g(across); });
        MPI_Comm_free(&across);
        MPI_Comm_free(&half);
        expect(contains(what, "MPI_Intercomm_merge"), what);
    });
}

/// What a rank holds of 1 000 numbers, each of which is its place, plus `base`.
struct numbers {
    std::vector<double> memory{};
    cairn::sharded_view view{};
    std::int64_t begin, end;

    numbers(int rank, int size, double base)
        : begin(1000 * rank / size), end(1000 * (rank + 1) / size) {
        for (auto i = begin; i < end; ++i) memory.push_back(base + static_cast<double>(i));
        view = cairn::flat_shards({40, 25}, begin, end, memory.data(), cairn::dtype::float64);
    }
    friend bool operator==(const numbers& a, const numbers& b) { return a.memory == b.memory; }
};
/// A directory that all ranks know.
struct shared_directory {
    std::optional<support::scratch> mine{};
    std::string path{};
    shared_directory() {
        char name[4096] = {};
        if (world_rank == 0) {
            mine.emplace();
            std::snprintf(name, sizeof name, "%s", mine->dir.c_str());
        }
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
        path = name;
    }
    shared_directory(shared_directory&&) = delete;
    ~shared_directory() { everybody(); }
};

void check_checkpoints() {
    int const savers = std::min(world_size, 4), loaders = std::max(1, savers - 1);
    auto const name = "saved on " + std::to_string(savers) + " of the ranks, loaded on " +
                      std::to_string(loaders);
    check(name, [&] {
        shared_directory const d;
        part const four(world_rank < savers), three(world_rank >= world_size - loaders);
        if (four.in()) {
            mpi_group g(four.comm());
            numbers mine(g.rank(), g.size(), 0.5);
            std::int64_t const step = 7;
            cairn::state_dict state{{"numbers", mine.view}, {"step", step}};
            cairn::save(state, d.path + "/step_7", g);
        }
        everybody();
        if (three.in()) {
            mpi_group g(three.comm());
            numbers mine(g.rank(), g.size(), -1000.0);
            std::int64_t step = 0;
            cairn::state_dict state{{"numbers", mine.view}, {"step", std::ref(step)}};
            cairn::load(state, d.path + "/step_7", g);
            expect(mine == numbers(g.rank(), g.size(), 0.5) && step == 7, "another state");
        }
    });
}

void check_beside_the_trainer() {
    check("saved beside the trainer's own exchanges", [] {
        shared_directory const d;
        mpi_group g(MPI_COMM_WORLD);
        numbers mine(world_rank, world_size, 0.25);
        cairn::state_dict state{{"numbers", mine.view}};
        for (int step = 0; step < 5; ++step) {
            auto const id = d.path + "/step_" + std::to_string(step);
            auto saved = cairn::async_save(state, id, g, boost::asio::use_future);
            for (int i = 0; i < 200; ++i) {
                int one = 1, sum = 0, from = -1;
                MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                expect(sum == world_size, "the trainer's sum is wrong");
                MPI_Sendrecv(&world_rank, 1, MPI_INT, (world_rank + 1) % world_size, 0, &from, 1,
                             MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                expect((from + 1) % world_size == world_rank, "the trainer hears another's");
            }
            (void)saved.get().wait();
            numbers back(world_rank, world_size, 0);
            cairn::state_dict target{{"numbers", back.view}};
            cairn::load(target, id, g);
            expect(back == mine, "another state");
        }
    });
    if (world_size == 1) return;
    check("who is late says with what", [] {
        auto const at = std::make_shared<cairn::activity>();
        mpi_group g(MPI_COMM_WORLD);
        g.share(at);
        at->enter("a long write");
        if (world_rank != world_size - 1) {
            auto const what =
                refusal(errc::timed_out, [&] { meet(g, std::chrono::steady_clock::now() + 50ms); });
            expect(contains(what, "in a long write for"), what);
        }
        everybody();
    });
}

/// Too low a level, on all ranks.
void check_single() {
    auto const name = [](int level) { return cairn::detail::mpi_level_name(level); };
    int provided = 0;
    MPI_Query_thread(&provided);
    check("a thread level that is too low", [&] {
        auto const many = refusal(errc::invalid_argument, [] { mpi_group g(MPI_COMM_WORLD); });
        expect(contains(many, name(MPI_THREAD_MULTIPLE) + " or more") &&
                   contains(many, "found " + name(provided)) && contains(many, "MPI_Init_thread"),
               many);
    });
}

int run(const std::string& before) {
    check("before MPI_Init_thread", [&] {
        expect(contains(before, "not initialised") &&
                   contains(before, "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE"),
               before);
    });
    check_suite();
    check_ends();
    check_misuse();
    check_bootstrap();
    check_checkpoints();
    check_beside_the_trainer();

    // The last one cannot be agreed on through MPI: a rank that fails it fails the run.
    std::optional<mpi_group> late(std::in_place, MPI_COMM_WORLD);
    meet(*late);
    MPI_Finalize();
    try {
        refusal(errc::rank_failed, [&] { meet(*late); });
        refusal(errc::poisoned, [&] { meet(*late); });
        late.reset();
        auto const what = refusal(errc::invalid_argument, [] { mpi_group g(MPI_COMM_WORLD); });
        expect(contains(what, "finalised"), what);
        ++passed;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: after MPI_Finalize: on rank %d: %s\n", world_rank, e.what());
        ++failed;
    }
    return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const how = argc > 1 ? argv[1] : "";
    if (how != "multiple" && how != "single") {
        std::fprintf(stderr, "usage: test_mpi multiple|single\n");
        return 2;
    }
    int const level = how == "multiple" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    std::string before;
    try {
        mpi_group g(MPI_COMM_WORLD);
    } catch (const cairn::error& e) {
        before = e.what();
    }
    int provided = -1;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    int result = 0;
    if (level == MPI_THREAD_SINGLE) {
        check_single();
        check_bootstrap();
        MPI_Finalize();
        result = failed == 0 ? 0 : 1;
    } else if (provided < level) {
        std::fprintf(stderr, "error: this MPI provides %s at most\n",
                     cairn::detail::mpi_level_name(provided).c_str());
        MPI_Finalize();
        result = 1;
    } else {
        result = run(before);
    }
    if (world_rank == 0) std::printf("%d passed, %d failed\n", passed, failed);
    return result;
}
