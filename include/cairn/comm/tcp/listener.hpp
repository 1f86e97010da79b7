// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_LISTENER_HPP
#define CAIRN_COMM_TCP_LISTENER_HPP

#include <cairn/comm/tcp/unique_id.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

using tcp_socket = boost::asio::ip::tcp;

/// Whether an interface is one of "eth0,ib0"; every one is of an empty list.
inline bool is_listed(std::string_view name, std::string_view list) {
    if (list.empty()) return true;
    for (;;) {
        auto const comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == list.npos) return false;
        list.remove_prefix(comma + 1);
    }
}

/// The addresses of this host that others may reach, those of the loopback last.
/// @param interfaces  Names of those to use; empty for all.
inline std::vector<std::string> local_hosts(const std::string& interfaces) {
    std::vector<std::string> hosts, loopback;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {"127.0.0.1"};
    std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const keep(all, &::freeifaddrs);
    for (auto const* i = all; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
        auto const family = i->ifa_addr->sa_family;
        if ((family != AF_INET && family != AF_INET6) || !is_listed(i->ifa_name, interfaces))
            continue;
        char text[NI_MAXHOST];
        auto const length = static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in)
                                                                     : sizeof(sockaddr_in6));
        if (::getnameinfo(i->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
            continue;
        std::string host = text;
        if (host.find('%') != std::string::npos) continue;  // link-local: of this host's own naming
        ((i->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : hosts).push_back(std::move(host));
    }
    hosts.insert(hosts.end(), loopback.begin(), loopback.end());
    if (hosts.empty())
        throw error(errc::invalid_argument,
                    {.expected = "a network interface that is up" +
                                 (interfaces.empty() ? std::string() : ", of " + interfaces),
                     .found = "none"});
    return hosts;
}

/// A program that the process starts must not hold its sockets open.
inline void keep_from_children(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

/// A socket that listens at any address of this host, IPv6 and IPv4.
class tcp_listener {
public:
    /// @param port  0: any that is free.
    /// @throws error errc::io
    explicit tcp_listener(boost::asio::io_context& io, std::uint16_t port = 0) : acceptor_(io) {
        boost::system::error_code ec;
        for (auto const& family : {tcp_socket::v6(), tcp_socket::v4()}) {
            if (open(tcp_socket::endpoint(family, port), ec)) return;
            acceptor_.close();
        }
        throw error(errc::io, {.expected = "a port to listen at" +
                                           (port == 0 ? "" : ": " + std::to_string(port)),
                               .found = ec.message()});
    }
    /// One that another process, or `unique_id`, has opened.
    tcp_listener(boost::asio::io_context& io, int descriptor) : acceptor_(io) {
        sockaddr_storage a{};
        socklen_t length = sizeof a;
        boost::system::error_code ec;
        if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&a), &length) != 0)
            throw error(errc::invalid_argument, {.expected = "a listening socket",
                                                 .found = std::to_string(descriptor)});
        keep_from_children(descriptor);
        acceptor_.assign(a.ss_family == AF_INET6 ? tcp_socket::v6() : tcp_socket::v4(), descriptor,
                         ec);
        if (ec) throw error(errc::io, {.found = ec.message()});
    }

    tcp_socket::acceptor& acceptor() { return acceptor_; }
    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
    std::vector<tcp_address> addresses(const std::string& interfaces) const {
        bool const v4_only = acceptor_.local_endpoint().protocol() == tcp_socket::v4();
        std::vector<tcp_address> out;
        for (auto& host : local_hosts(interfaces))
            if (!v4_only || host.find(':') == std::string::npos)
                out.push_back({std::move(host), port()});
        return out;
    }

private:
    bool open(const tcp_socket::endpoint& at, boost::system::error_code& ec) {
        acceptor_.open(at.protocol(), ec);
        if (!ec) keep_from_children(acceptor_.native_handle());
        if (!ec && at.protocol() == tcp_socket::v6())
            acceptor_.set_option(boost::asio::ip::v6_only(false), ec);
        if (!ec) acceptor_.set_option(tcp_socket::acceptor::reuse_address(true), ec);
        if (!ec) acceptor_.bind(at, ec);
        if (!ec) acceptor_.listen(boost::asio::socket_base::max_listen_connections, ec);
        return !ec;
    }

    tcp_socket::acceptor acceptor_;
};

/// Listening sockets between `unique_id`, which opens them, and the group that takes them over:
/// who comes early waits in the socket's queue.
class waiting_listeners {
public:
    static void put(const tcp_id& id, int descriptor) {
        std::lock_guard const lock(mutex());
        map()[id.text()] = descriptor;
    }
    static std::optional<int> take(const tcp_id& id) {
        std::lock_guard const lock(mutex());
        auto const it = map().find(id.text());
        if (it == map().end()) return {};
        auto const d = it->second;
        map().erase(it);
        return d;
    }

private:
    static std::mutex& mutex() {
        static std::mutex m;
        return m;
    }
    static std::map<std::string, int>& map() {
        static std::map<std::string, int> m;
        return m;
    }
};

}  // namespace cairn::detail

#endif
