// SPDX-License-Identifier: Apache-2.0
// How groups are formed over real sockets: who is late, missing, foreign, or short of descriptors.
#include "support/on_threads.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/detail/tcp/join.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(joining)

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
boost::asio::ip::tcp::endpoint endpoint_of(const cairn::tcp_address& a) {
    return {boost::asio::ip::make_address(a.host), a.port};
}
/// A connection of somebody's to the group's first address, who sends `bytes`, and what comes back.
std::string answer_to(const tcp_id& id, const std::string& bytes) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket s(io);
    s.connect(endpoint_of(id.addresses.front()));
    // The group may hang up before it has read all.
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
std::string hello() {
    return as_text(cairn::detail::plain_handshake(cairn::detail::handshake_kind::hello, {}));
}
/// What each of the ranks of a group ends with.
std::vector<std::string> join_all(const tcp_id& id, int n, const tcp_options& o) {
    std::vector<std::string> said(static_cast<std::size_t>(n));
    (void)support::try_on_threads(n, [&](int r) {
        said[static_cast<std::size_t>(r)] = failure_of([&] {
            tcp_group g(id, r, n, o);
            meet(g);
        });
    });
    return said;
}

}  // namespace

/// Connections that somebody made and left lie in rank 0's queue before the one that counts.
BOOST_AUTO_TEST_CASE(rank_0_may_be_late) {
    auto const id = tcp_group::unique_id();
    for (int i = 0; i < 5; ++i) {
        boost::asio::io_context io;
        boost::asio::ip::tcp::socket left(io);
        left.connect(endpoint_of(id.addresses.front()));
        if (i % 2 == 0) boost::asio::write(left, boost::asio::buffer(hello()));
    }
    std::string one;
    std::thread other([&] {
        one = failure_of([&] {
            tcp_group g(id, 1, 2, soon(30s));
            meet(g);
        });
    });
    std::this_thread::sleep_for(6500ms);
    auto const zero = failure_of([&] {
        tcp_group g(id, 0, 2, soon(30s));
        meet(g);
    });
    other.join();
    BOOST_TEST(zero == "");
    BOOST_TEST(one == "");
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
        BOOST_TEST(contains(said[r], "rank 2 did not join"), "rank " << r << ": " << said[r]);

    auto const lost = failure_of([&] { tcp_group(id, 1, 2, soon(100ms)); });
    BOOST_TEST(contains(lost, "rank 0"), lost);
    BOOST_TEST(std::any_of(id.addresses.begin(), id.addresses.end(),
                           [&](auto const& a) { return contains(lost, a.text()); }),
               lost);
}

/// Rank 0 has joined by then, and would presume rank 1 dead. Here rank 2 takes longer than
/// peer_timeout from rank 0 to rank 1, and ends once it is admitted.
BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_its_children_is_not_presumed_dead) {
    using namespace cairn::detail;
    auto o = soon(30s);
    o.fan_in = 1;
    o.liveness = {200ms, 3000ms, 300ms};
    auto const id = tcp_group::unique_id(o);
    std::vector<std::string> said(2);
    std::thread others([&] {
        (void)support::try_on_threads(2, [&](int r) {
            said[static_cast<std::size_t>(r)] = failure_of([&] { tcp_group(id, r, 3, o); });
        });
    });
    join_request me;
    me.instance = 1;
    me.rank = 2;
    me.size = 3;
    me.fan_in = 1;
    me.alive = o.liveness;
    auto const ask = [&](const cairn::tcp_address& at) {
        boost::asio::io_context io;
        boost::asio::ip::tcp::socket s(io);
        s.connect(endpoint_of(at));
        auto const read = [&] {
            cairn::message m(handshake_head_bytes);
            boost::asio::read(s, boost::asio::buffer(m));
            m.resize(decode_handshake_head(m));
            boost::asio::read(s, boost::asio::buffer(m));
            return m;
        };
        handshake_session session;
        auto const hello = plain_handshake(handshake_kind::hello, session.ours);
        boost::asio::write(s, boost::asio::buffer(hello));
        auto const challenge = read();
        std::memcpy(session.theirs.data(), challenge.data() + 1, session.theirs.size());
        auto const join = session.proven(id.secret, encode(me));
        boost::asio::write(s, boost::asio::buffer(join));
        for (;;) {
            auto const m = read();
            auto const proven = session.checked(id.secret, m);
            if (!proven) wire_reader::fail("an answer without a proof");
            wire_reader r(proven->subspan(1));
            if (auto a = decode_answer(r); a.says != join_answer::verdict::wait) return a;
        }
    };
    try {
        auto const to = ask(id.addresses.front());
        BOOST_TEST((to.says == join_answer::verdict::go));
        std::this_thread::sleep_for(5s);
        me.epoch = to.epoch;
        BOOST_TEST((ask(to.parent.at(0)).says == join_answer::verdict::stay));
    } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
    }
    others.join();
    for (auto const& s : said) {
        BOOST_TEST(contains(s, "rank 2"), s);
        BOOST_TEST(!contains(s, "nothing received"), s);
    }
}

BOOST_AUTO_TEST_CASE(no_timeout_is_no_timeout) {
    auto const id = tcp_group::unique_id();
    for (auto const& s : join_all(id, 3, soon(cairn::no_timeout))) BOOST_TEST(s == "");
    using std::chrono::milliseconds;
    auto const now = std::chrono::steady_clock::now();
    BOOST_TEST((cairn::deadline_after(cairn::no_timeout) == cairn::no_deadline));
    BOOST_TEST((cairn::deadline_after(milliseconds::max() - 1ms) == cairn::no_deadline));
    BOOST_TEST((cairn::deadline_after(std::chrono::hours(1000000)) > now));
    BOOST_TEST((cairn::deadline_after(5ms, now) == now + 5ms));
    BOOST_TEST((cairn::deadline_after(-5ms, now) == now - 5ms));
    BOOST_TEST((cairn::deadline_after(1ms, cairn::no_deadline) == cairn::no_deadline));
    // Nor is it one for an exchange, and for what is heard of a rank.
    tcp_options o;
    o.liveness.heartbeat_interval = o.liveness.peer_timeout = cairn::no_timeout;
    BOOST_CHECK_NO_THROW(support::run_tcp_ranks(2, o, [](tcp_group& g) {
        meet(g, cairn::deadline_after(cairn::no_timeout));
        meet(g, cairn::deadline_after(milliseconds::max() - 1ms));
    }));
}

BOOST_AUTO_TEST_CASE(peers_that_would_be_dead_before_a_heartbeat_are_refused) {
    auto const id = tcp_group::unique_id();
    tcp_options o;
    o.liveness.heartbeat_interval = o.liveness.peer_timeout;
    auto const said = failure_of([&] { tcp_group g(id, 1, 2, o); });
    BOOST_TEST(said.find("above 0 and below peer_timeout") != said.npos, said);
    for (auto const& s : join_all(id, 2, soon(30s))) BOOST_TEST(s == "");
}

BOOST_AUTO_TEST_CASE(strangers_are_not_let_in) {
    auto const id = tcp_group::unique_id();
    auto old = hello();
    old[7] = 0;  // the version
    std::vector<std::string> said(3);
    std::vector<std::thread> ranks;
    auto const join = [&](std::size_t r) {
        ranks.emplace_back([&, r] {
            said[r] = failure_of([&] {
                tcp_group g(id, static_cast<int>(r), 3, soon(30s));
                meet(g);
            });
        });
    };
    join(0);
    std::string to_garbage = answer_to(id, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    to_garbage += answer_to(id, std::string(100000, '\xff'));
    to_garbage += answer_to(id, hello().substr(0, 20));
    auto const to_old = answer_to(id, old);
    tcp_id other = id;
    other.secret[3] = static_cast<std::uint8_t>(other.secret[3] + 1);
    auto const to_stranger = failure_of([&] { tcp_group(other, 1, 3, soon(500ms)); });
    join(1);
    join(2);
    for (auto& t : ranks) t.join();
    // The job went on.
    for (auto const& s : said) BOOST_TEST(s == "");
    BOOST_TEST(to_garbage == "");
    BOOST_TEST(contains(to_stranger, "the group there is another one"), to_stranger);
    BOOST_REQUIRE(to_old.size() > 7u);
    BOOST_TEST(static_cast<int>(to_old[7]) == int{cairn::detail::handshake_version});
}

/// Somebody listens where the id says, and gets what a rank sends to whoever is there.
BOOST_AUTO_TEST_CASE(the_secret_is_not_sent) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::acceptor a(io, {boost::asio::ip::address_v4::loopback(), 0});
    tcp_id const id{{{"127.0.0.1", a.local_endpoint().port()}}, tcp_id::new_secret()};
    std::thread rank([&] { (void)failure_of([&] { tcp_group(id, 1, 2, soon(500ms)); }); });
    auto s = a.accept();
    std::string got(4096, '\0');
    got.resize(s.read_some(boost::asio::buffer(got)));
    // Whoever asks for more is not told either.
    boost::asio::write(s, boost::asio::buffer(as_text(cairn::detail::plain_handshake(
                              cairn::detail::handshake_kind::challenge, {}))));
    std::string more(4096, '\0');
    more.resize(s.read_some(boost::asio::buffer(more)));
    std::string const secret(reinterpret_cast<const char*>(id.secret.data()), 16);
    BOOST_TEST((got.size() > 12u && more.size() > 12u));
    BOOST_TEST(!contains(got + more, secret));
    s.close();
    a.close();
    rank.join();
}

BOOST_AUTO_TEST_CASE(a_job_of_one_host_listens_on_its_loopback_alone) {
    auto const hosts = cairn::detail::loopback_hosts();
    auto const own = cairn::detail::find_own_addresses({});
    if (own.loopback.empty()) {
        std::cout << "    skipped: this host has no loopback\n";
        return;
    }
    BOOST_TEST((hosts == own.loopback));
    auto const id = cairn::detail::new_tcp_id(hosts);
    for (auto const& a : id.addresses) BOOST_TEST((contains(a.host, "127.") || a.host == "::1"));
    // At no other address, neither rank 0 nor those below it.
    if (!own.reachable.empty()) {
        boost::asio::io_context io;
        for (auto const& host : own.reachable) {
            boost::asio::ip::tcp::socket s(io);
            boost::system::error_code ec;
            s.connect(endpoint_of({host, id.addresses.front().port}), ec);
            BOOST_TEST(ec.failed(), host);
        }
    }
    tcp_options o = soon(30s);
    o.fan_in = 1;
    for (auto const& s : join_all(id, 3, o)) BOOST_TEST(s == "");
    // Others listen at the addresses of interfaces, each by itself, not at any.
    for (auto const& a : tcp_group::unique_id().addresses) {
        auto const listed = [&](auto const& all) {
            return std::find(all.begin(), all.end(), a.host) != all.end();
        };
        BOOST_TEST((listed(own.reachable) || (own.reachable.empty() && listed(own.loopback))));
    }
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
    BOOST_TEST(contains(foreign, "an unused id that this process made"), foreign);
}

BOOST_AUTO_TEST_CASE(a_group_of_one_rank_closes_the_sockets_of_its_id) {
    auto const id = tcp_group::unique_id();
    tcp_group alone(id, 0, 1);
    BOOST_TEST(cairn::detail::waiting_listeners::take(id).empty());
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket s(io);
    boost::system::error_code ec;
    s.connect(endpoint_of(id.addresses.front()), ec);
    BOOST_TEST(ec.failed());
    meet(alone);
}

// UBSan's look at a thrown object opens a pipe, and takes the object for a bad one where it cannot.
#ifdef __has_feature
#if __has_feature(undefined_behavior_sanitizer)
#define CAIRN_UBSAN_NEEDS_DESCRIPTORS *boost::unit_test::disabled()
#endif
#endif
#ifndef CAIRN_UBSAN_NEEDS_DESCRIPTORS
#define CAIRN_UBSAN_NEEDS_DESCRIPTORS *boost::unit_test::enabled()
#endif
BOOST_AUTO_TEST_CASE(too_few_descriptors_are_an_error_at_once, CAIRN_UBSAN_NEEDS_DESCRIPTORS) {
    auto const id = tcp_group::unique_id();
    (void)tcp_group(tcp_id{}, 0, 1);
    rlimit old{};
    ::getrlimit(RLIMIT_NOFILE, &old);
    int const next = ::dup(0);
    ::close(next);
    // As few as none, and up to as many as are enough for everything but the connection itself.
    std::vector<std::string> said;
    for (rlim_t some = 0; some < 40; ++some) {
        rlimit low = old;
        low.rlim_cur = static_cast<rlim_t>(next) + some;
        ::setrlimit(RLIMIT_NOFILE, &low);
        auto const what = failure_of([&] { tcp_group(id, 1, 2, soon(2s)); });
        ::setrlimit(RLIMIT_NOFILE, &old);
        if (contains(what, "the deadline passed")) break;  // enough
        said.push_back(what);
    }
    BOOST_TEST((said.size() > 2u && said.size() < 40u));
    for (auto const& s : said) BOOST_TEST((contains(s, "ulimit -n") && contains(s, "rank 1")), s);
    cairn::detail::waiting_listeners::close(id);
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

BOOST_AUTO_TEST_CASE(the_handshake_is_an_asynchronous_operation) {
    using namespace cairn::detail;
    auto const id = tcp_group::unique_id();
    boost::asio::io_context io;
    auto const shell = [&](int rank) {
        return std::make_shared<handshake_shell>(
            io.get_executor(), tree_topology{rank, 3, 1}, cairn::deadline_after(30s),
            [id] { return std::optional(id); },
            rank == 0 ? waiting_listeners::take(id) : open_descriptors(), "");
    };
    // Three ranks on one thread; nobody holds it while it waits for the others.
    std::vector<std::future<tcp_neighbours>> all;
    for (int r : {2, 1, 0}) all.push_back(async_handshake(shell(r), boost::asio::use_future));
    io.run();
    std::vector<std::size_t> neighbours;
    std::uint64_t epoch = 0;
    for (auto& f : all) {
        auto const n = f.get();
        neighbours.push_back(n.sockets.size());
        BOOST_TEST((epoch == 0 || n.epoch == epoch));
        epoch = n.epoch;
    }
    BOOST_TEST((neighbours == std::vector<std::size_t>{1, 2, 1}));
    // Cancelled: it ends, and leaves nothing that would keep the context busy.
    boost::asio::cancellation_signal stop;
    std::exception_ptr ended;
    io.restart();
    async_handshake(shell(1),
                    boost::asio::bind_cancellation_slot(
                        stop.slot(), [&](std::exception_ptr e, tcp_neighbours) { ended = e; }));
    io.run_for(50ms);
    BOOST_TEST(!ended);
    stop.emit(boost::asio::cancellation_type::terminal);
    io.run_for(30s);
    BOOST_TEST(io.stopped());
    BOOST_REQUIRE(ended);
    BOOST_TEST(contains(failure_of([&] { std::rethrow_exception(ended); }), "cancelled"));
}

BOOST_AUTO_TEST_SUITE_END()
