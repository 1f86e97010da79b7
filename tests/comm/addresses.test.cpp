// SPDX-License-Identifier: Apache-2.0
// IPv4 and IPv6, one interface of several.
#include "support/tcp_ranks.hpp"

#include <cairn/comm/detail/tcp/local_hosts.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(addresses)

using cairn::tcp_group;
using cairn::tcp_id;

namespace {

/// Two ranks, of which the second knows only some of the first one's addresses.
std::string meet(const tcp_id& id, bool (*reachable)(const std::string& host)) {
    tcp_id some = id;
    std::erase_if(some.addresses, [&](auto const& a) { return !reachable(a.host); });
    if (some.addresses.empty()) return "no address";
    std::string said;
    std::thread zero([&] {
        try {
            tcp_group g(id, 0, 2);
        } catch (const std::exception& e) {
            said += e.what();
        }
    });
    std::string other;
    try {
        tcp_group g(some, 1, 2);
    } catch (const std::exception& e) {
        other = e.what();
    }
    zero.join();
    return said + other;
}
bool v4(const std::string& host) {
    return host.find(':') == std::string::npos;
}
bool v6(const std::string& host) {
    return host.find(':') != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(addresses_of_either_kind_do) {
    BOOST_TEST(meet(tcp_group::unique_id(), v4) == "");
    auto const id = tcp_group::unique_id();
    if (std::none_of(id.addresses.begin(), id.addresses.end(),
                     [](auto const& a) { return v6(a.host); })) {
        std::cout << "    skipped: this host has no IPv6\n";
        tcp_group take(id, 0, 1);  // its socket
        return;
    }
    BOOST_TEST(meet(id, v6) == "");
}

BOOST_AUTO_TEST_CASE(addresses_that_lead_nowhere_are_passed_over) {
    auto const id = tcp_group::unique_id();
    tcp_id some = id;
    // Nobody listens at the first; the second has no name.
    some.addresses.insert(some.addresses.begin(), {{"127.0.0.1", 1}, {"no-such-host.invalid", 1}});
    std::thread zero([&] { tcp_group g(id, 0, 2); });
    BOOST_CHECK_NO_THROW(tcp_group(some, 1, 2));
    zero.join();
}

BOOST_AUTO_TEST_CASE(a_group_can_listen_at_one_interface) {
    cairn::tcp_options o;
    o.interfaces = "lo";
    for (auto const& host : cairn::detail::local_hosts(o.interfaces))
        BOOST_TEST((host == "127.0.0.1" || host == "::1" || host.rfind("127.", 0) == 0), host);
    BOOST_CHECK_NO_THROW(support::run_tcp_ranks(2, o, [](tcp_group&) {}));
    BOOST_CHECK_EXCEPTION(
        cairn::detail::local_hosts("no-such-interface"), cairn::error, [](const auto& e) {
            return std::string(e.what()).find("no-such-interface") != std::string::npos;
        });
    BOOST_TEST(cairn::detail::is_listed("ib0", "eth0,ib0"));
    BOOST_TEST(!cairn::detail::is_listed("ib", "eth0,ib0"));
    // Others are told of the loopback only where there is nothing else.
    auto const own = cairn::detail::find_own_addresses("");
    BOOST_TEST(
        (cairn::detail::local_hosts("") == (own.reachable.empty() ? own.loopback : own.reachable)));
}

BOOST_AUTO_TEST_SUITE_END()
