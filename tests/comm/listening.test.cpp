// SPDX-License-Identifier: Apache-2.0
// At which addresses the ranks of a group listen while it forms, as the system sees it.
#include "support/allocations.hpp"
#include "support/scratch.hpp"
#include "support/set_variable.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/detail/tcp/join.hpp>

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(listening)

using cairn::tcp_group;
using cairn::tcp_id;
using cairn::tcp_options;
using support::failure_of;
using support::meet;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

tcp_options soon() {
    tcp_options o;
    o.join_timeout = 60s;
    o.fan_in = 1;
    return o;
}
/// The names of this process's sockets, as /proc lists them.
std::set<std::string> own_sockets() {
    std::set<std::string> out;
    for (auto const& d : fs::directory_iterator("/proc/self/fd")) {
        std::error_code ec;  // the iterator's own descriptor is gone
        auto const to = fs::read_symlink(d.path(), ec).string();
        if (to.starts_with("socket:[")) out.insert(to.substr(8, to.size() - 9));
    }
    return out;
}
/// "0100007F:1F90", of 32-bit words as they lie in memory.
std::string host_in(const std::string& address) {
    auto const hex = address.substr(0, address.find(':'));
    std::uint32_t words[4] = {};
    for (std::size_t i = 0; i < hex.size() / 8 && i < 4; ++i)
        words[i] = static_cast<std::uint32_t>(std::stoul(hex.substr(8 * i, 8), nullptr, 16));
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(hex.size() == 8 ? AF_INET : AF_INET6, words, text, sizeof text);
    return text;
}
/// The addresses at which this process listens, by socket.
std::map<std::string, std::string> listeners() {
    std::map<std::string, std::string> out;
    auto const own = own_sockets();
    for (auto const* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream in(table);
        std::string line, number, local, remote, state, skipped, socket;
        std::getline(in, line);  // the head
        while (std::getline(in, line)) {
            std::istringstream words(line);
            words >> number >> local >> remote >> state;
            for (int i = 0; i < 5; ++i) words >> skipped;
            words >> socket;
            if (state == "0A" && own.contains(socket)) out.emplace(socket, host_in(local));
        }
    }
    return out;
}
bool is_loopback(const std::string& host) {
    return host.starts_with("127.") || host == "::1";
}
/// What `f()` returns once it holds something; polled for a minute at most.
template <class F>
auto wait_for(F&& f) {
    for (int i = 0; i < 6000; ++i) {
        if (auto got = f(); !got.empty()) return got;
        std::this_thread::sleep_for(10ms);
    }
    return decltype(f()){};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_launched_job_of_one_host_is_found_at_its_loopback) {
    auto const own = cairn::detail::find_own_addresses({});
    struct job {
        std::map<std::string, std::string> variables;
        bool one_host;
    };
    std::map<std::string, std::string> const torchrun{
        {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "somewhere"}, {"MASTER_PORT", "29500"}};
    std::map<std::string, std::string> const mpi{{"OMPI_COMM_WORLD_RANK", "0"},
                                                 {"OMPI_COMM_WORLD_SIZE", "2"}};
    std::map<std::string, std::string> const slurm{
        {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}};
    std::map<std::string, std::string> const by_hand{{"CAIRN_RANK", "0"},
                                                     {"CAIRN_WORLD_SIZE", "2"}};
    auto const with = [](auto v, const char* name, const char* value) {
        v[name] = value;
        return v;
    };
    for (auto const& [variables, one_host] :
         {job{with(torchrun, "LOCAL_WORLD_SIZE", "2"), true},
          job{with(torchrun, "LOCAL_WORLD_SIZE", "1"), false},
          job{with(mpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"), true},
          job{with(slurm, "SLURM_NNODES", "1"), true}, job{by_hand, false}}) {
        support::scratch const at;
        std::list<support::set_variable> set;
        for (auto const* other : {"CAIRN_RANK", "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID",
                                  "RANK", "SLURM_PROCID", "CAIRN_INTERFACES"})
            if (!variables.contains(other)) set.emplace_back(other, "");  // of who started this
        for (auto const& [name, value] : variables) set.emplace_back(name, value);
        set.emplace_back("CAIRN_RENDEZVOUS_DIR", at.dir.string());
        std::string zero;
        std::thread rank_0([&] {
            zero = failure_of([&] {
                auto g = tcp_group::from_environment(soon());
                meet(g);
            });
        });
        auto const text = wait_for([&] {
            std::string line;
            for (auto const& f : fs::directory_iterator(at.dir))
                if (f.path().extension() == ".group") std::ifstream(f.path()) >> line;
            return line;
        });
        BOOST_TEST(!text.empty());
        std::string one = "no id";
        if (!text.empty()) {
            auto const id = tcp_id::parse(text);
            for (auto const& a : id.addresses)
                if (!own.loopback.empty() && (one_host || !own.reachable.empty()))
                    BOOST_TEST(is_loopback(a.host) == one_host,
                               variables.begin()->first << ": " << a.host);
            one = failure_of([&] {
                tcp_group g(id, 1, 2, soon());
                meet(g);
            });
        }
        rank_0.join();
        BOOST_TEST(zero == "");
        BOOST_TEST(one == "");
    }
}

/// A rank that others join listens too: at its host's loopback if rank 0 is found there, and never
/// at all addresses.
BOOST_AUTO_TEST_CASE(ranks_between_listen_at_their_own_addresses) {
    auto const own = cairn::detail::find_own_addresses({});
    if (!fs::exists("/proc/net/tcp")) {
        std::cout << "    skipped: no /proc/net/tcp\n";
        return;
    }
    for (bool const one_host : {true, false}) {
        auto const before = listeners();
        auto const id = one_host ? cairn::detail::new_tcp_id(cairn::detail::loopback_hosts())
                                 : tcp_group::unique_id();
        auto const new_ones = [&] {
            auto now = listeners();
            for (auto const& [socket, host] : before) now.erase(socket);
            return now;
        };
        auto const of_rank_0 = new_ones();
        BOOST_TEST(of_rank_0.size() == id.addresses.size());
        std::vector<std::string> said(3);
        std::vector<std::thread> ranks;
        auto const join = [&](std::size_t r) {
            ranks.emplace_back([&, r] {
                said[r] = failure_of([&] {
                    tcp_group g(id, static_cast<int>(r), 3, soon());
                    meet(g);
                });
            });
        };
        // Rank 2 is to join rank 1, which waits for it.
        join(0);
        join(1);
        auto const of_rank_1 = wait_for([&] {
            auto now = new_ones();
            for (auto const& [socket, host] : of_rank_0) now.erase(socket);
            return now;
        });
        join(2);
        for (auto& t : ranks) t.join();
        for (auto const& s : said) BOOST_TEST(s == "");
        BOOST_TEST(!of_rank_1.empty());
        for (auto const& [socket, host] : of_rank_1) {
            auto const& wanted = (one_host && !own.loopback.empty()) || own.reachable.empty()
                                     ? own.loopback
                                     : own.reachable;
            BOOST_TEST((std::find(wanted.begin(), wanted.end(), host) != wanted.end()), host);
        }
    }
}

/// Connecting may take seconds, in which a program that another thread starts would hold the
/// socket.
BOOST_AUTO_TEST_CASE(a_socket_that_connects_is_closed_in_children) {
    auto const sockets = [] {
        std::set<int> out;
        for (auto const& d : fs::directory_iterator("/proc/self/fd")) {
            std::error_code ec;
            if (fs::read_symlink(d.path(), ec).string().starts_with("socket:["))
                out.insert(std::stoi(d.path().filename().string()));
        }
        return out;
    };
    boost::asio::io_context io;
    cairn::detail::tcp_listener const to(io.get_executor(), cairn::detail::loopback_hosts());
    auto const before = sockets();
    cairn::detail::handshake_connection::events said;
    said.resolved = [](int) {};
    auto const c = std::make_shared<cairn::detail::handshake_connection>(
        cairn::detail::tcp_socket::socket(io), std::move(said));
    c->connect(to.addresses().front());
    auto now = sockets();
    for (int d : before) now.erase(d);
    BOOST_REQUIRE(now.size() == 1u);
    int const fd = *now.begin();
    BOOST_TEST((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    auto const child = ::fork();
    if (child == 0) ::_exit(::fcntl(fd, F_GETFD) < 0 ? 0 : 1);
    int status = -1;
    BOOST_TEST(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    c->close();
}

/// Whatever there is no memory for, from an id to a listener: no socket is forgotten.
BOOST_AUTO_TEST_CASE(no_socket_stays_open_for_lack_of_memory) {
    using support::failing_allocation;
    auto const descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                             std::filesystem::directory_iterator());
    };
    auto const before = descriptors();
    std::uint64_t nth = 0;
    for (bool hit = true; hit; ++nth) {
        {
            cairn::detail::made_id made;
            failing_allocation const fails(failing_allocation::of::this_thread, nth);
            try {
                auto const& id = made.make([] { return tcp_group::unique_id(); });
                boost::asio::io_context io;
                cairn::detail::tcp_listener const l(io.get_executor(),
                                                    cairn::detail::waiting_listeners::take(id));
            } catch (const std::exception&) {  // std::bad_alloc, or what became of it
            }
            hit = fails.hit();
        }
        BOOST_TEST(descriptors() == before, "allocation " << nth);
        BOOST_REQUIRE(nth < 10'000u);
    }
    BOOST_TEST(nth > 20u);
}

BOOST_AUTO_TEST_SUITE_END()
