// SPDX-License-Identifier: Apache-2.0
// How ranks come to the same id: by a launcher's environment, a file, or a broadcast of the user's.
#include "support/on_threads.hpp"
#include "support/scratch.hpp"
#include "support/set_variable.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/detail/launch_environment.hpp>
#include <cairn/comm/detail/tcp/join.hpp>
#include <cairn/comm/detail/tcp/local_hosts.hpp>
#include <cairn/comm/detail/tcp/rendezvous_file.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(bootstrap)

using cairn::errc;
using cairn::tcp_group;
using cairn::tcp_id;
using cairn::tcp_options;
using support::failure_of;
using support::meet;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
tcp_options soon(std::chrono::milliseconds join) {
    tcp_options o;
    o.join_timeout = join;
    return o;
}
std::size_t open_files() {
    auto const all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// A broadcast of bytes between threads, as a user may have it: MPI_Bcast, a store, a function.
class shared_memory {
public:
    explicit shared_memory(int n) : all_here_(n) {}
    void operator()(std::span<std::byte> bytes, int root, int rank) {
        if (rank == root) root_ = bytes;
        all_here_.arrive_and_wait();
        if (rank != root) std::memcpy(bytes.data(), root_.data(), bytes.size());
        all_here_.arrive_and_wait();
    }

private:
    std::barrier<> all_here_;
    std::span<std::byte> root_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_meet_over_one_broadcast_of_the_users) {
    for (int n : {1, 2, 5}) {
        shared_memory memory(n);
        auto const before = open_files();
        BOOST_CHECK_NO_THROW(support::rethrow_first(support::try_on_threads(n, [&](int r) {
            int calls = 0;
            tcp_group g(
                r, n,
                [&](std::span<std::byte> bytes, int root) {
                    ++calls;
                    memory(bytes, root, r);
                },
                soon(30s));
            if (calls != (n == 1 ? 0 : 1)) throw std::runtime_error("one broadcast is enough");
            meet(g);
            meet(g);
        })));
        BOOST_TEST(open_files() <= before + 1);
    }
}

/// Rank 0 has no id to broadcast: it broadcasts why.
BOOST_AUTO_TEST_CASE(what_fails_on_rank_0_fails_on_all) {
    shared_memory memory(3);
    auto const before = open_files();
    std::vector<std::string> said(3);
    (void)support::try_on_threads(3, [&](int r) {
        said[static_cast<std::size_t>(r)] = failure_of([&] {
            tcp_options o = soon(30s);
            if (r == 0) o.interfaces = "no-such-interface";
            tcp_group(
                r, 3, [&](std::span<std::byte> b, int root) { memory(b, root, r); }, o);
        });
    });
    for (auto const& s : said) BOOST_TEST(contains(s, "no-such-interface"), s);
    BOOST_TEST(open_files() <= before);
}

/// What the broadcast itself throws is the caller's, and leaves no socket open.
BOOST_AUTO_TEST_CASE(a_broadcast_that_fails_or_lies_is_an_error_that_leaves_no_socket) {
    auto const before = open_files();
    struct odd {};
    auto const failing = [](std::span<std::byte>, int) { throw odd(); };
    BOOST_CHECK_THROW(tcp_group(0, 2, failing), odd);
    BOOST_CHECK_THROW(tcp_group(1, 2, failing), odd);
    for (int fill : {0, 1, 2, 3, 255}) {
        auto const lying = [&](std::span<std::byte> b, int) {
            std::fill(b.begin(), b.end(), static_cast<std::byte>(fill));
        };
        BOOST_CHECK_THROW(tcp_group(0, 2, lying, soon(100ms)), cairn::error);
        BOOST_CHECK_THROW(tcp_group(1, 2, lying, soon(100ms)), cairn::error);
    }
    // Nor does a wrong fan-in, found when the id is known already.
    tcp_options o;
    o.fan_in = 0;
    BOOST_CHECK_THROW(tcp_group(
                          0, 2, [](std::span<std::byte>, int) {}, o),
                      cairn::error);
    BOOST_TEST(open_files() <= before);
}

BOOST_AUTO_TEST_CASE(ranks_meet_in_a_directory) {
    support::scratch const place;
    auto const d = place.dir.string();
    auto const file = d + "/cairn-run.group";
    // What an earlier run has left: nobody listens there.
    tcp_id old{{{"127.0.0.1", 1}}, tcp_id::new_secret()};
    {
        std::ofstream(file) << old.text() << "\n";
        ::chmod(file.c_str(), 0600);
    }
    std::vector<std::string> said(3);
    std::vector<std::thread> ranks;
    for (int r : {2, 1, 0}) {
        ranks.emplace_back([&, r] {
            said[static_cast<std::size_t>(r)] = failure_of([&] {
                auto g = tcp_group::from_directory(d, "run", r, 3, soon(30s));
                meet(g);
            });
        });
        std::this_thread::sleep_for(100ms);
    }
    for (auto& t : ranks) t.join();
    for (auto const& s : said) BOOST_TEST(s == "");
    BOOST_TEST(std::filesystem::is_empty(d));

    std::ofstream(file) << old.text() << "\n";
    ::chmod(file.c_str(), 0644);
    auto const open_to_all =
        failure_of([&] { tcp_group::from_directory(d, "run", 1, 2, soon(200ms)); });
    BOOST_TEST(contains(open_to_all, "mode 0600"), open_to_all);
}

BOOST_AUTO_TEST_CASE(a_directory_of_ranks_is_made_if_there_is_none) {
    support::scratch const place;
    auto const d = place.dir.string() + "/jobs/17";
    std::string said[2];
    std::vector<std::thread> ranks;
    for (int r : {1, 0})
        ranks.emplace_back([&, r] {
            said[r] = failure_of([&] {
                auto g = tcp_group::from_directory(d, "run", r, 2, soon(30s));
                meet(g);
            });
        });
    for (auto& t : ranks) t.join();
    for (auto const& s : said) BOOST_TEST(s == "");
    BOOST_TEST(std::filesystem::is_empty(d));
}

/// Every rank says so by itself: none waits for a rank 0 that has failed.
BOOST_AUTO_TEST_CASE(a_directory_of_ranks_that_cannot_be_made_is_named_at_once) {
    support::scratch const place;
    auto const file = place.dir.string() + "/file";
    std::ofstream(file) << "not a directory";
    for (auto const& d : {file, file + "/jobs", std::string("/proc/cairn"), std::string()})
        for (int r : {0, 1}) {
            auto const said =
                failure_of([&] { tcp_group::from_directory(d, "run", r, 2, soon(5s)); });
            BOOST_TEST(contains(said, "rank " + std::to_string(r) + ": "), said);
            BOOST_TEST(contains(said, "cannot make the directory '" + d + "'"), said);
            BOOST_TEST(contains(said, "name a directory that all ranks can write to"), said);
        }
}

BOOST_AUTO_TEST_CASE(a_rank_that_waits_in_vain_names_the_file) {
    support::scratch const place;
    auto const d = place.dir.string();
    auto const said = failure_of([&] { tcp_group::from_directory(d, "none", 1, 2, soon(100ms)); });
    BOOST_TEST(contains(said, "the deadline passed"), said);
    BOOST_TEST(contains(said, "rank 1: '" + d + "/cairn-none.group'"), said);
    BOOST_TEST(contains(said, "rank 0 to write this file"), said);
    BOOST_TEST(contains(said, "all ranks name the same directory and run"), said);
    auto const zero = failure_of([&] { tcp_group::from_directory(d, "one", 0, 2, soon(100ms)); });
    BOOST_TEST(contains(zero, "'" + d + "/cairn-one.group': the deadline passed"), zero);
    BOOST_TEST(contains(zero, "rank 1 did not join"), zero);
}

/// As a killed run of another version leaves it.
BOOST_AUTO_TEST_CASE(a_file_that_holds_no_id_is_replaced_by_rank_0_or_named) {
    support::scratch const place;
    auto const d = place.dir.string(), file = d + "/cairn-run.group";
    std::ofstream(file) << "cairn9:0123@elsewhere\n";
    ::chmod(file.c_str(), 0600);
    auto const said = failure_of([&] { tcp_group::from_directory(d, "run", 1, 2, soon(100ms)); });
    BOOST_TEST(contains(said, "'" + file + "'"), said);
    BOOST_TEST(contains(said, "rank 0 to write this file"), said);
    BOOST_TEST(contains(said, "holds no id of this version"), said);
    std::string zero, one;
    std::thread early([&] {
        one = failure_of([&] {
            auto g = tcp_group::from_directory(d, "run", 1, 2, soon(30s));
            meet(g);
        });
    });
    std::this_thread::sleep_for(100ms);
    zero = failure_of([&] {
        auto g = tcp_group::from_directory(d, "run", 0, 2, soon(30s));
        meet(g);
    });
    early.join();
    BOOST_TEST(zero == "");
    BOOST_TEST(one == "");
}

/// Two jobs that use one name at the same time: ranks of one could join the other, so neither goes
/// on, and each says who the other one was.
BOOST_AUTO_TEST_CASE(a_name_that_another_job_uses_is_refused_in_both) {
    support::scratch const place;
    auto const d = place.dir.string();
    std::string first;
    std::thread zero([&] {
        first = failure_of([&] { (void)tcp_group::from_directory(d, "run", 0, 2, soon(1s)); });
    });
    while (!std::filesystem::exists(d + "/cairn-run.group")) std::this_thread::sleep_for(5ms);
    auto const second =
        failure_of([&] { (void)tcp_group::from_directory(d, "run", 0, 2, soon(500ms)); });
    BOOST_TEST(contains(second, "already exists"), second);
    BOOST_TEST(contains(second, d + "/cairn-run.group"), second);
    auto const one =
        failure_of([&] { (void)tcp_group::from_directory(d, "run", 1, 2, soon(30s)); });
    zero.join();
    for (auto const& said : {first, one}) {
        BOOST_TEST(contains(said, "already exists"), said);
        BOOST_TEST(contains(said, "whose rank 0 was process " + std::to_string(::getpid())), said);
        BOOST_TEST(contains(said, "CAIRN_RENDEZVOUS_DIR"), said);
    }
    BOOST_TEST(std::filesystem::is_empty(d));
}
/// Even if all ranks had read the file before.
BOOST_AUTO_TEST_CASE(a_second_rank_0_stops_a_group_that_is_complete) {
    support::scratch const place;
    auto const d = place.dir.string();
    cairn::detail::rendezvous_file mine(d, "run", 0), other(d, "run", 0);
    tcp_id const id{{{"127.0.0.1", 1}}, {}};
    mine.write(id);
    mine.check_alone();
    BOOST_CHECK_THROW(other.write(id), cairn::error);
    BOOST_CHECK_THROW(mine.check_alone(), cairn::error);
}

/// Where locks tell nothing, e.g. on NFS without them.
BOOST_AUTO_TEST_CASE(a_file_that_another_run_has_replaced_is_noticed) {
    support::scratch const place;
    auto const d = place.dir.string();
    tcp_id const id{{{"127.0.0.1", 1}}, {}}, another{{{"127.0.0.1", 2}}, {}};
    cairn::detail::rendezvous_file mine(d, "run", 0);
    mine.write(id);
    std::ofstream(d + "/copy") << another.text() << "\n";
    std::filesystem::rename(d + "/copy", d + "/cairn-run.group");
    BOOST_CHECK_THROW(mine.check_alone(), cairn::error);
}
BOOST_AUTO_TEST_CASE(a_name_of_a_run_is_no_path) {
    support::scratch const place;
    BOOST_TEST(contains(
        failure_of([&] { (void)tcp_group::from_directory(place.dir.string(), "user/run", 1, 2); }),
        "'user/run'"));
}

/// Some file systems change the number of a file while it is there.
BOOST_AUTO_TEST_CASE(a_file_of_ranks_with_another_number_is_the_same) {
    namespace fs = std::filesystem;
    support::scratch const place;
    auto const d = place.dir.string(), file = d + "/cairn-run.group", copy = d + "/copy";
    tcp_id const id{{{"127.0.0.1", 1}}, {}}, another{{{"127.0.0.1", 2}}, {}};
    for (auto const& there : {id, another}) {
        {
            cairn::detail::rendezvous_file mine(d, "run", 0);
            mine.write(id);
            std::ofstream(copy) << there.text() << "\n";
            fs::rename(copy, file);
        }
        BOOST_TEST(fs::exists(file) == (there.text() == another.text()));
    }
}

/// As a host has that runs many containers.
BOOST_AUTO_TEST_CASE(an_id_of_hundreds_of_addresses_is_read_by_all_ranks) {
    if (cairn::detail::find_own_addresses({}).loopback.empty()) {
        std::cout << "    skipped: this host has no loopback\n";
        return;
    }
    std::vector<std::string> hosts;
    for (int i = 0; i < 400; ++i)
        hosts.push_back("127.101." + std::to_string(100 + i / 100) + "." +
                        std::to_string(100 + i % 100));
    cairn::detail::made_id made;
    auto const& id = made.make([&] { return cairn::detail::new_tcp_id(hosts); });
    BOOST_TEST(id.addresses.size() > 100u);
    support::scratch const place;
    cairn::detail::rendezvous_file zero(place.dir.string(), "run", 0);
    cairn::detail::rendezvous_file one(place.dir.string(), "run", 1);
    zero.write(id);
    BOOST_TEST((one.read() == id));
}

/// Jobs of one host each, on two hosts that share a directory, numbered alike by their launchers.
BOOST_AUTO_TEST_CASE(names_of_jobs_of_one_host_have_the_host_in_them) {
    char host[256] = {};
    BOOST_REQUIRE(::gethostname(host, sizeof host - 1) == 0);
    cairn::detail::launch_environment e;
    e.run = "torchrun-none-127.0.0.1-29500-0";
    BOOST_TEST(contains(cairn::detail::rendezvous_name(e), host));
    e.one_host = false;
    BOOST_TEST(cairn::detail::rendezvous_name(e) == e.run);
}

/// Ranks started by hand, on hosts that share a directory, wait for one file.
BOOST_AUTO_TEST_CASE(a_directory_for_ranks_started_by_hand_serves_several_hosts) {
    support::scratch const place;
    support::set_variable const rank("CAIRN_RANK", "1"), size("CAIRN_WORLD_SIZE", "2"),
        run("CAIRN_RUN", ""), group("CAIRN_GROUP", ""), agent("TORCHELASTIC_RUN_ID", ""),
        directory("CAIRN_RENDEZVOUS_DIR", "");
    auto o = soon(100ms);
    o.directory = place.dir.string();
    auto const said = failure_of([&] { (void)tcp_group::from_environment(o); });
    BOOST_TEST(contains(said, "'" + o.directory + "/cairn-launch-.group'"), said);
}

/// Ranks of Hydra (MPICH, Intel MPI) in a Slurm job have the variables of its proxies.
BOOST_AUTO_TEST_CASE(ranks_with_the_variables_of_their_launchers_proxy_form_no_group) {
    for (auto const* const proxies : {"1", "2"}) {
        std::list<support::set_variable> set;
        for (auto const* other : {"CAIRN_RANK", "CAIRN_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "RANK"})
            set.emplace_back(other, "");
        set.emplace_back("SLURM_PROCID", "0");
        set.emplace_back("SLURM_STEP_ID", "0");
        set.emplace_back("SLURM_STEP_NUM_TASKS", proxies);
        set.emplace_back("PMI_SIZE", "8");
        auto const said = failure_of([&] { (void)tcp_group::from_environment(soon(100ms)); });
        BOOST_TEST(contains(said, "SLURM_STEP_NUM_TASKS=" + std::string(proxies)), said);
        BOOST_TEST(contains(said, "found PMI_SIZE=8: another launcher"), said);
        BOOST_TEST(contains(said, "tcp_group_from_mpi"), said);
    }
}

BOOST_AUTO_TEST_CASE(launchers_say_who_we_are) {
    using env = std::map<std::string, std::string>;
    auto const detect = [](const env& e) {
        return cairn::detail::launch_environment::detect(
            [&](const char* name) -> std::optional<std::string> {
                auto const it = e.find(name);
                if (it == e.end()) return {};
                return it->second;
            });
    };
    BOOST_TEST(detect({}).size == 1);
    auto const t = detect({{"RANK", "3"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "a"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_RUN_ID", "none/../x"},
                           {"TORCHELASTIC_RESTART_COUNT", "1"}});
    BOOST_TEST((t.rank == 3 && t.size == 8 && !t.one_host));
    BOOST_TEST(t.run == "torchrun-none_.._x-a-29500-1");
    // Its agent is started once on each host, by another launcher.
    for (auto const& [rank, size] : {std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                     std::pair("CAIRN_RANK", "CAIRN_WORLD_SIZE")})
        for (auto const* const hosts : {"1", "2", "16"}) {
            auto const w = detect({{rank, "0"},
                                   {size, hosts},
                                   {"RANK", "3"},
                                   {"WORLD_SIZE", "8"},
                                   {"GROUP_WORLD_SIZE", "2"},
                                   {"MASTER_PORT", "29500"},
                                   {"TORCHELASTIC_RUN_ID", "x"}});
            bool const within = std::string(hosts) == "2";  // otherwise its workers start others
            BOOST_TEST((w.launcher == "torchrun") == within);
            BOOST_TEST(w.rank == (within ? 3 : 0));
        }
    auto const m = detect({{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "prte-1@1"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_NTASKS", "1"}});
    BOOST_TEST((m.rank == 1 && m.size == 2 && m.one_host && m.launcher == "Open MPI"));
    auto const s = detect({{"SLURM_PROCID", "5"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_NTASKS", "6"},
                           {"SLURM_JOB_ID", "77"},
                           {"SLURM_NNODES", "2"}});
    BOOST_TEST((s.rank == 5 && s.size == 6 && !s.one_host && s.run == "slurm-77-0-"));
    // Programs of srun have as many ranks as its step, those of a proxy that it started may not.
    for (auto const& [ranks, contradiction] :
         {std::pair("1", ""), std::pair("2", ""), std::pair("16", "PMI_SIZE=16")})
        BOOST_TEST(detect({{"SLURM_PROCID", "1"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"PMI_RANK", "1"},
                           {"PMI_SIZE", ranks}})
                       .contradiction == contradiction);
    // A batch script and an interactive shell are no ranks of a step.
    for (auto const* step : {"4294967291", "4294967290", "4294967294"})
        BOOST_TEST(
            detect({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", step}, {"SLURM_NTASKS", "6"}}).size ==
            1);
    auto const c = detect({{"CAIRN_RANK", "0"},
                           {"CAIRN_WORLD_SIZE", "4"},
                           {"CAIRN_GROUP", "x"},
                           {"CAIRN_LISTEN_FD", "5"}});
    BOOST_TEST((c.rank == 0 && c.size == 4 && c.id == "x" && c.descriptor == 5));
    BOOST_TEST((c.one_host && !c.by_hand));
    // Ranks started by hand may be on several hosts if they have a directory to meet in.
    for (auto const* directory : {"", "/shared"}) {
        auto const h = detect(
            {{"CAIRN_RANK", "1"}, {"CAIRN_WORLD_SIZE", "2"}, {"CAIRN_RENDEZVOUS_DIR", directory}});
        BOOST_TEST(h.by_hand);
        BOOST_TEST(h.one_host == (*directory == '\0'));
    }
    BOOST_TEST(contains(failure_of([&] {
                            (void)detect({{"CAIRN_RANK", "x"}, {"CAIRN_WORLD_SIZE", "4"}});
                        }),
                        "CAIRN_RANK"));
    // Half of a pair.
    for (auto const* const name :
         {"CAIRN_RANK", "CAIRN_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})
        BOOST_TEST(contains(failure_of([&] {
                                (void)detect({{name, "2"}});
                            }),
                            "found nothing"),
                   name);
    BOOST_TEST(contains(failure_of([&] {
                            (void)detect({{"CAIRN_RANK", "4"}, {"CAIRN_WORLD_SIZE", "4"}});
                        }),
                        "4 of 4"));
    BOOST_TEST(contains(failure_of([&] { (void)cairn::detail::rendezvous_directory("", s); }),
                        "CAIRN_RENDEZVOUS_DIR"));
}

BOOST_AUTO_TEST_SUITE_END()
