// SPDX-License-Identifier: Apache-2.0
// Every verb over MPI: mpirun -n N test_mpi_verbs multiple|single
#include "support/scratch.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/comm/from_mpi.hpp>
#include <cairn/comm/mpi_group.hpp>

#include <boost/asio/use_future.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int world_rank = 0, world_size = 1;

void expect(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

/// A model of which each rank has some rows, and a number that all have.
struct model {
    static constexpr std::int64_t rows = 24, columns = 5;
    std::int64_t begin = rows * world_rank / world_size, end = rows * (world_rank + 1) / world_size;
    std::vector<float> own = std::vector<float>(static_cast<std::size_t>((end - begin) * columns));
    std::int64_t step = 0;

    explicit model(float base) {
        for (std::size_t i = 0; i < own.size(); ++i)
            own[i] = base + static_cast<float>(begin * columns) + static_cast<float>(i);
    }
    cairn::sharded_view weight() {
        return cairn::flat_shards({rows, columns}, begin * columns, end * columns, own.data(),
                                  cairn::dtype::float32);
    }
    cairn::state_dict state_dict() { return {{"weight", weight()}, {"step", std::ref(step)}}; }
    void load_state_dict(const cairn::state_dict&) {}
};

}  // namespace

template <>
struct cairn::model_traits<model> {
    static void visit(model& m, auto& v) { v.parameter("weight", m.weight()); }
};

namespace {

int passed = 0, failed = 0;

/// One case is passed when it is on every rank.
/// @param agree  Returns on all ranks whether all succeeded: MPI may be finalised.
void check(const std::string& name, const std::function<bool(bool)>& agree,
           const std::function<void()>& f) {
    std::string why;
    try {
        f();
    } catch (const std::exception& e) {
        why = *e.what() == '\0' ? "an exception" : e.what();
    }
    if (!why.empty())
        std::fprintf(stderr, "error: %s: on rank %d: %s\n", name.c_str(), world_rank, why.c_str());
    bool const all = agree(why.empty());
    (all ? passed : failed)++;
    if (world_rank == 0) std::printf("%s %s\n", all ? "ok     " : "FAILED ", name.c_str());
    std::fflush(stdout);
}

template <class Group>
void check_verbs(const std::string& over, Group& g, const std::string& dir) {
    auto const agree = [](bool ok) {
        int mine = ok ? 0 : 1, all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        return all == 0;
    };
    auto const verb = [&](const char* name, const std::function<void()>& f) {
        check(std::string(name) + " over " + over, agree, f);
    };
    auto const loaded = [](model& m, float base, std::int64_t step) {
        expect(m.own == model(base).own && m.step == step, "another state");
    };
    auto const id = dir + "/one";
    verb("save, load", [&] {
        model from(1), to(0);
        from.step = 3;
        cairn::save(from, id, g);
        cairn::load(to, id, g);
        loaded(to, 1, 3);
    });
    verb("async_save, async_load", [&] {
        model from(2), to(0);
        from.step = 4;
        auto saved = cairn::async_save(from, dir + "/two", g, boost::asio::use_future).get();
        (void)saved.wait();
        auto sd = to.state_dict();
        (void)cairn::async_load(sd, dir + "/two", g, boost::asio::use_future).get();
        loaded(to, 2, 4);
    });
    verb("load with a data plane", [&] {
        model from(1);
        std::vector<float> whole(static_cast<std::size_t>(model::rows * model::columns));
        cairn::tensor_view const v(cairn::dtype::float32, {model::rows, model::columns},
                                   whole.data());
        cairn::communicator_data_plane plane(g);
        cairn::state_dict sd{{"weight", v}};
        cairn::load(sd, id, cairn::load_options{.read_once_from = 0}, g, plane);
        expect(std::equal(from.own.begin(), from.own.end(),
                          whole.begin() + from.begin * model::columns),
               "other elements");
    });
    verb("load_tree", [&] {
        auto const tree = cairn::load_tree(id, {}, g);
        expect(tree.at("step").as_value().template as<std::int64_t>() == 3, "another step");
    });
    verb("a checkpointer", [&] {
        auto const run = dir + "/run";
        {
            cairn::checkpointer ckpt(g, run);
            model m(5);
            for (m.step = 1; m.step <= 3; ++m.step) {
                (void)ckpt.maybe_save(m.step, m);
                expect(bool(ckpt.save_now(m.step, m)), "nothing was saved");
                (void)ckpt.wait();
            }
        }
        cairn::checkpointer ckpt(g, run);
        model to(0);
        (void)ckpt.plan(to);
        auto const latest = ckpt.load_latest(to);
        expect(latest && latest->id.ends_with("step_3"), "another checkpoint");
        loaded(to, 5, 3);
    });
    verb("state dicts of a whole model", [&] {
        model from(7), to(0);
        auto const whole = cairn::get_model_state_dict(from, {.full_state_dict = true}, g);
        expect(whole.at("weight").as_tensor().shards[0].view.shape ==
                   cairn::index_vector{model::rows, model::columns},
               "not whole");
        cairn::set_model_state_dict(to, world_rank == 0 ? whole : cairn::state_dict{},
                                    {.full_state_dict = true, .broadcast_from_rank0 = true}, g);
        loaded(to, 7, 0);
        cairn::full_params params(from, g);
        expect(params.at("weight").template as<float>().back() == 7.0f + 119.0f, "another element");
        (void)cairn::full_tensor(from.weight(), g);
    });
}

/// A directory that all ranks know; it outlives MPI.
std::string shared_directory(std::optional<support::scratch>& mine) {
    char name[4096] = {};
    if (world_rank == 0) {
        mine.emplace();
        std::snprintf(name, sizeof name, "%s", mine->dir.c_str());
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    return name;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const how = argc > 1 ? argv[1] : "";
    if (how != "multiple" && how != "single") {
        std::fprintf(stderr, "usage: test_mpi_verbs multiple|single\n");
        return 2;
    }
    int const level = how == "multiple" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int provided = -1;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    std::optional<support::scratch> mine;
    auto const dir = shared_directory(mine);
    if (level == MPI_THREAD_MULTIPLE) {
        cairn::mpi_group g(MPI_COMM_WORLD);
        check_verbs("mpi_group", g, dir + "/mpi");
    }
    auto g = cairn::tcp_group_from_mpi(MPI_COMM_WORLD);
    check_verbs("tcp_group_from_mpi", g, dir + "/tcp");
    MPI_Finalize();
    check(
        "the group outlives MPI", [](bool ok) { return ok; },
        [&] {
            model from(9), to(0);
            cairn::save(from, dir + "/late", g);
            cairn::load(to, dir + "/late", g);
            expect(to.own == from.own, "another state");
        });
    if (world_rank == 0) std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
