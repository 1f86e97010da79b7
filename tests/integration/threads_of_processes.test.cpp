// SPDX-License-Identifier: Apache-2.0
// Threads of several processes are the ranks of one group: docs/how-do-i.md.
#include "support/dying_store.hpp"
#include "support/on_threads.hpp"
#include "support/scratch.hpp"

#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(threads_of_processes)

namespace {

constexpr int processes = 2, threads = 2, ranks = processes * threads;

/// A row of a matrix, and a number that is the same everywhere.
struct part {
    std::vector<float> row;
    std::int64_t step;
    cairn::state_dict dict(int at) {
        cairn::sharded_view w{{ranks, 3}, cairn::dtype::float32, {}};
        w.shards.emplace_back(cairn::box({at, 0}, {1, 3}),
                              cairn::tensor_view(cairn::dtype::float32, {1, 3}, row.data()));
        return {{"w", w}, {"step", std::ref(step)}};
    }
};

void run_rank(const std::filesystem::path& dir, int rank) {
    cairn::tcp_options o;
    o.join_timeout = std::chrono::minutes(2);
    auto group = cairn::tcp_group::from_directory((dir / "meet").string(), "run", rank, ranks, o);
    cairn::file_store store(dir / "ckpt");
    auto const value = [](int row) { return std::vector<float>(3, static_cast<float>(row + 1)); };
    part mine{value(rank), 42};
    auto saved = mine.dict(rank);
    (void)cairn::save(saved, "blocking", store, group);
    boost::asio::io_context io;
    cairn::async_save(
        saved, "background", store, group,
        boost::asio::bind_executor(io, [](const std::exception_ptr& e, cairn::pending_save p) {
            if (e) std::rethrow_exception(e);
            (void)p.wait();
        }));
    io.run();
    for (auto const* id : {"blocking", "background"}) {
        // Another thread's row, and one of the other process.
        part other{std::vector<float>(3), 0};
        int const row = ranks - 1 - rank;
        auto sd = other.dict(row);
        (void)cairn::load(sd, id, store, group);
        if (other.row != value(row) || other.step != 42)
            throw std::runtime_error("rank " + std::to_string(rank) + ": another row in " + id);
    }
}
void run_process(const std::filesystem::path& dir, int process) {
    support::rethrow_first(support::try_on_threads(
        threads, [&](int thread) { run_rank(dir, process * threads + thread); }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_of_several_processes_save_and_load_as_one_group) {
    support::scratch const at;
    auto const first = [&] {
        auto const other = ::fork();
        if (other == 0)
            ::_exit(support::in_process([&] { run_process(at.dir, 1); }) == support::ended::well
                        ? 0
                        : 1);
        run_process(at.dir, 0);
        int status = 0;
        if (other < 0 || ::waitpid(other, &status, 0) != other || status != 0)
            throw std::runtime_error("the other process has failed");
    };
    BOOST_TEST((support::in_process(first) == support::ended::well));
    for (auto const* id : {"blocking", "background"}) {
        // A file of each rank, whichever process it is in.
        std::set<std::string> files;
        for (auto const& f : std::filesystem::directory_iterator(at.dir / "ckpt" / id))
            files.insert(f.path().filename().string());
        BOOST_TEST(files.size() == static_cast<std::size_t>(ranks) + 1, files.size());
        std::vector<float> w(ranks * 3);
        cairn::state_dict sd{
            {"w", cairn::tensor_view(cairn::dtype::float32, {ranks, 3}, w.data())}};
        (void)cairn::load(sd, id, cairn::file_store(at.dir / "ckpt"));
        for (std::size_t i = 0; i < w.size(); ++i)
            BOOST_TEST(w[i] == static_cast<float>(i / 3 + 1));
    }
}

BOOST_AUTO_TEST_SUITE_END()
