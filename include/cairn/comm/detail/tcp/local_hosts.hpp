// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_LOCAL_HOSTS_HPP
#define CAIRN_COMM_DETAIL_TCP_LOCAL_HOSTS_HPP

#include <cairn/error.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Whether a list like "eth0,ib0" contains an interface; an empty list contains all.
inline bool is_listed(std::string_view name, std::string_view list) {
    if (list.empty()) return true;
    for (;;) {
        auto const comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == list.npos) return false;
        list.remove_prefix(comma + 1);
    }
}

struct own_addresses {
    std::vector<std::string> reachable{};  ///< From other hosts.
    std::vector<std::string> loopback{};
};
/// Returns the numeric addresses of this host's interfaces that are up.
/// @param interfaces  Names of those to use; empty for all.
inline own_addresses find_own_addresses(const std::string& interfaces) {
    own_addresses found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {{}, {"127.0.0.1"}};
    std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const keep(all, &::freeifaddrs);
    for (auto const* i = all; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
        auto const family = i->ifa_addr->sa_family;
        if ((family != AF_INET && family != AF_INET6) || !is_listed(i->ifa_name, interfaces))
            continue;
        char text[NI_MAXHOST];
        auto const length =
            static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        if (::getnameinfo(i->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
            continue;
        std::string host = text;
        if (host.find('%') != std::string::npos) continue;  // link-local: valid on this host only
        bool const loops = (i->ifa_flags & IFF_LOOPBACK) != 0;
        (loops ? found.loopback : found.reachable).push_back(std::move(host));
    }
    return found;
}

/// Returns the addresses at which other hosts may reach this one. Loopback addresses are included
/// only if `interfaces` names that interface or there are no others.
/// @throws error errc::invalid_argument if there are none
inline std::vector<std::string> local_hosts(const std::string& interfaces) {
    auto found = find_own_addresses(interfaces);
    auto hosts = std::move(found.reachable);
    if (hosts.empty() || !interfaces.empty())
        hosts.insert(hosts.end(), found.loopback.begin(), found.loopback.end());
    if (hosts.empty())
        throw error(errc::invalid_argument,
                    {.expected = "a network interface that is up" +
                                 (interfaces.empty() ? std::string() : ", of " + interfaces),
                     .found = "none",
                     .remedy = "set CAIRN_INTERFACES or tcp_options::interfaces"});
    return hosts;
}
/// Returns the loopback addresses; if there are none, as in some containers, all addresses.
inline std::vector<std::string> loopback_hosts() {
    auto found = find_own_addresses({});
    return found.loopback.empty() ? local_hosts({}) : std::move(found.loopback);
}

}  // namespace cairn::detail

#endif
