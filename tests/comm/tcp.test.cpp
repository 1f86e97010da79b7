// SPDX-License-Identifier: Apache-2.0
// The suite over real sockets, ranks as threads; and who is not let in.
#include "conformance/communicator.hpp"
#include "support/scratch.hpp"
#include "support/tcp_ranks.hpp"

#include <boost/asio/connect.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(tcp)

using cairn::errc;
using cairn::tcp_group;
using cairn::tcp_id;
using cairn::tcp_options;
using support::run_tcp_ranks;
using support::try_tcp_ranks;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::exception_ptr& e) {
    if (!e) return {};
    try {
        std::rethrow_exception(e);
    } catch (const std::exception& x) {
        return x.what();
    }
}
bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
tcp_options soon(std::chrono::milliseconds join) {
    tcp_options o;
    o.join = join;
    return o;
}
void barrier(tcp_group& g, cairn::deadline d = cairn::no_deadline) {
    (void)cairn::await_completion<cairn::done_t>([&](auto done) { g.barrier(d, std::move(done)); });
}
template <class F>
std::string failure_of(F&& f) {
    try {
        f();
        return {};
    } catch (const cairn::error& e) {
        return e.what();
    }
}

/// A connection of somebody's to the group's first address, who sends `bytes`, and what comes back.
std::string answer_to(const tcp_id& id, const std::string& bytes) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket s(io);
    boost::asio::ip::tcp::resolver resolver(io);
    boost::asio::connect(s, resolver.resolve(id.addresses.back().host,
                                             std::to_string(id.addresses.back().port)));
    // The group may hang up before it has heard all.
    boost::system::error_code ec;
    boost::asio::write(s, boost::asio::buffer(bytes), ec);
    s.shutdown(boost::asio::socket_base::shutdown_send, ec);
    std::string back(4096, '\0');
    back.resize(boost::asio::read(s, boost::asio::buffer(back), ec));
    return back;
}
std::string as_text(const cairn::message& m) {
    return {reinterpret_cast<const char*>(m.data()), m.size()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(keeps_its_word) {
    for (int fan_in : {2, 32}) {
        for (int n : {1, 2, 4, 8}) {
            tcp_options o = soon(30s);
            o.fan_in = fan_in;
            // 256 MiB once; each rank of an all_gather has all of it.
            auto const largest = std::size_t{1} << (n == 2 && fan_in == 32 ? 28 : n == 8 ? 18 : 22);
            BOOST_CHECK_NO_THROW(run_tcp_ranks(n, o, [&](tcp_group& g) {
                cairn::conformance::check_communicator(g, n == 2 ? std::size_t{1} << 20 : largest);
                if (n != 2) return;
                auto const sent = cairn::conformance::detail::sample(1, 1, largest);
                auto const got = cairn::await_completion<cairn::message>(
                    [&](auto done) { g.broadcast(sent, 1, cairn::no_deadline, std::move(done)); });
                cairn::conformance::detail::expect(got == sent, g.rank(), "a long message");
            }));
        }
    }
}

BOOST_AUTO_TEST_CASE(groups_do_not_hear_each_other) {
    auto const id = tcp_group::unique_id();
    BOOST_CHECK_NO_THROW(run_tcp_ranks(3, soon(30s), [&](tcp_group& g) {
        tcp_group other(id, (g.rank() + 1) % 3, 3);  // the same ranks, in another order
        cairn::conformance::check_interleaved(g, other);
    }));
    // A part of them.
    auto const few = tcp_group::unique_id();
    BOOST_CHECK_NO_THROW(run_tcp_ranks(4, soon(30s), [&](tcp_group& g) {
        if (g.rank() % 2 == 1) {
            tcp_group half(few, g.rank() / 2, 2);
            cairn::conformance::check_communicator(half, 1024);
        }
        barrier(g);
    }));
}

BOOST_AUTO_TEST_CASE(misuse_deadlines_and_cancellation) {
    BOOST_CHECK_NO_THROW(run_tcp_ranks(
        4, soon(30s), [](tcp_group& g) { cairn::conformance::check_mismatch(g); }));
    BOOST_CHECK_NO_THROW(run_tcp_ranks(
        4, soon(30s), [](tcp_group& g) { cairn::conformance::check_wrong_root(g); }));
    for (int odd : {0, 2}) {
        std::latch late(2), cancelled(2);
        BOOST_CHECK_NO_THROW(run_tcp_ranks(3, soon(30s), [&](tcp_group& g) {
            cairn::conformance::check_deadline(
                g, odd, [&] { late.wait(); }, [&] { late.count_down(); });
        }));
        BOOST_CHECK_NO_THROW(run_tcp_ranks(3, soon(30s), [&](tcp_group& g) {
            cairn::conformance::check_cancel(
                g, odd, [&] { cancelled.wait(); }, [&] { cancelled.count_down(); });
        }));
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named_and_the_rest_make_a_new_group) {
    for (int gone : {0, 1, 4}) {
        tcp_options o = soon(30s);
        o.fan_in = 2;
        auto const again = tcp_group::unique_id();
        std::atomic<int> told{0}, rebuilt{0};
        auto const failures = try_tcp_ranks(5, o, [&](tcp_group& g) {
            barrier(g);
            if (g.rank() == gone) return;
            auto const what = failure_of([&] { barrier(g); });
            told += contains(what, "rank " + std::to_string(gone) + " left the group");
            tcp_group survivors(again, g.rank() - (g.rank() > gone), 4, o);
            barrier(survivors);
            ++rebuilt;
        });
        for (auto const& e : failures) BOOST_TEST(text_of(e) == "");
        BOOST_TEST(told == 4);
        BOOST_TEST(rebuilt == 4);
    }
}

BOOST_AUTO_TEST_CASE(who_does_not_come_is_named) {
    auto const id = tcp_group::unique_id();
    std::vector<std::string> said(4);
    std::vector<std::thread> ranks;
    for (int r : {0, 1, 3})
        ranks.emplace_back([&, r] {
            said[static_cast<std::size_t>(r)] =
                failure_of([&] { tcp_group(id, r, 4, soon(500ms)); });
        });
    for (auto& t : ranks) t.join();
    for (std::size_t r : {0u, 1u, 3u})
        BOOST_TEST(contains(said[r], "rank 2 did not come"), "rank " << r << ": " << said[r]);

    auto const lost = failure_of([&] { tcp_group(id, 1, 2, soon(100ms)); });
    BOOST_TEST(contains(lost, "rank 0"), lost);
    BOOST_TEST(contains(lost, id.addresses.back().text()), lost);
}

BOOST_AUTO_TEST_CASE(strangers_are_not_let_in) {
    auto const id = tcp_group::unique_id();
    cairn::detail::tcp_hello other;
    other.rank = 1;
    other.size = 3;
    other.fan_in = 32;
    auto late_hello = as_text(cairn::detail::encode(other));
    auto old = late_hello;
    old[7] = 0;  // the version
    std::vector<std::string> said(3);
    std::vector<std::thread> ranks;
    std::string to_garbage, to_stranger, to_old, to_twin;
    ranks.emplace_back([&] {
        said[0] = failure_of([&] {
            tcp_group g(id, 0, 3, soon(30s));
            barrier(g);
        });
    });
    to_garbage = answer_to(id, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    to_garbage += answer_to(id, std::string(100000, '\xff'));
    to_garbage += answer_to(id, late_hello.substr(0, 20));
    to_stranger = answer_to(id, late_hello);
    to_old = answer_to(id, old);
    ranks.emplace_back([&] {
        said[1] = failure_of([&] {
            tcp_group g(id, 1, 3, soon(30s));
            barrier(g);
        });
    });
    std::this_thread::sleep_for(300ms);
    to_twin = failure_of([&] { tcp_group(id, 1, 3, soon(30s)); });
    ranks.emplace_back([&] {
        said[2] = failure_of([&] {
            tcp_group g(id, 2, 3, soon(30s));
            barrier(g);
        });
    });
    for (auto& t : ranks) t.join();
    // The job went on.
    for (auto const& s : said) BOOST_TEST(s == "");
    BOOST_TEST(to_garbage == "");
    BOOST_TEST(contains(to_stranger, "the secret is another job's"), to_stranger);
    BOOST_TEST(contains(to_old, "version 1"), to_old);
    BOOST_TEST(contains(to_twin, "rank 1 has come already"), to_twin);
}

BOOST_AUTO_TEST_CASE(ranks_that_were_started_differently_stop_the_start) {
    struct other {
        int rank, size, fan_in;
        const char* word;
    };
    for (auto const& o : {other{1, 3, 32, "rank 1 of 3"}, other{1, 2, 4, "fan-in 4"}}) {
        auto const id = tcp_group::unique_id();
        std::string root, rank;
        std::thread zero([&] { root = failure_of([&] { tcp_group(id, 0, 2, soon(30s)); }); });
        auto options = soon(30s);
        options.fan_in = o.fan_in;
        rank = failure_of([&] { tcp_group(id, o.rank, o.size, options); });
        zero.join();
        BOOST_TEST(contains(root, o.word), root);
        BOOST_TEST(contains(rank, o.word), rank);
    }
    BOOST_TEST(contains(failure_of([] { tcp_group(tcp_id{}, 2, 2); }), "rank 2 of 2"));
    auto const id = tcp_group::unique_id();
    tcp_group once(id, 0, 1);
    auto const foreign = failure_of([] { tcp_group(tcp_id{}, 0, 2); });
    BOOST_TEST(contains(foreign, "an id that this process made"), foreign);
}

BOOST_AUTO_TEST_CASE(ids_are_text) {
    tcp_id id{{{"10.0.0.1", 4321}, {"fe80::1", 1}, {"host-a", 65535}}, tcp_id::new_secret()};
    BOOST_TEST((tcp_id::parse(id.text()) == id));
    BOOST_TEST((tcp_id::new_secret() != tcp_id::new_secret()));
    auto const good = id.text();
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (auto const& bad : {good.substr(0, i), good.substr(0, i) + "#" + good.substr(i + 1)}) {
            try {
                (void)tcp_id::parse(bad);  // some changes are an id too
            } catch (const cairn::error& e) {
                BOOST_TEST((e.code() == cairn::make_error_code(errc::invalid_argument)));
                // The secret is told to nobody.
                BOOST_TEST(!contains(e.what(), good.substr(7, 32)));
            }
        }
    }
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
                barrier(g);
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
    auto const nowhere =
        failure_of([&] { tcp_group::from_directory(d + "/no", "run", 0, 2, soon(200ms)); });
    BOOST_TEST(contains(nowhere, "No such file"), nowhere);
    auto const nobody =
        failure_of([&] { tcp_group::from_directory(d, "none", 1, 2, soon(100ms)); });
    BOOST_TEST(contains(nobody, "its address is not known"), nobody);
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
    auto const t = detect({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_RUN_ID", "none/../x"},
                           {"TORCHELASTIC_RESTART_COUNT", "1"}});
    BOOST_TEST((t.rank == 3 && t.size == 8 && !t.one_host));
    BOOST_TEST(t.run == "torchrun-none_.._x-a-29500-1");
    auto const m = detect({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"PMIX_NAMESPACE", "prte-1@1"},
                           {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "1"}});
    BOOST_TEST((m.rank == 1 && m.size == 2 && m.one_host && m.launcher == "Open MPI"));
    auto const s = detect({{"SLURM_PROCID", "5"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "6"},
                           {"SLURM_JOB_ID", "77"}, {"SLURM_NNODES", "2"}});
    BOOST_TEST((s.rank == 5 && s.size == 6 && !s.one_host && s.run == "slurm-77-0-"));
    auto const c = detect({{"CAIRN_RANK", "0"}, {"CAIRN_WORLD_SIZE", "4"}, {"CAIRN_GROUP", "x"},
                           {"CAIRN_LISTEN_FD", "5"}});
    BOOST_TEST((c.rank == 0 && c.size == 4 && c.id == "x" && c.descriptor == 5));
    BOOST_TEST(contains(failure_of([&] {
                            (void)detect({{"CAIRN_RANK", "x"}, {"CAIRN_WORLD_SIZE", "4"}});
                        }),
                        "CAIRN_RANK"));
    BOOST_TEST(contains(failure_of([&] {
                            (void)detect({{"CAIRN_RANK", "4"}, {"CAIRN_WORLD_SIZE", "4"}});
                        }),
                        "4 of 4"));
    BOOST_TEST(contains(failure_of([&] { (void)cairn::detail::rendezvous_directory("", s); }),
                        "CAIRN_RENDEZVOUS_DIR"));
}

BOOST_AUTO_TEST_SUITE_END()
