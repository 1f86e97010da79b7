// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_LISTENER_HPP
#define CAIRN_COMM_DETAIL_TCP_LISTENER_HPP

#include <cairn/comm/detail/tcp/local_hosts.hpp>
#include <cairn/comm/unique_id.hpp>
#include <cairn/detail/forks.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

using tcp_socket = boost::asio::ip::tcp;

/// Longest text of an id: a broadcast and a rendezvous file have room for it.
inline constexpr std::size_t longest_id = 4000;

/// Returns how to fix a failed system call.
inline std::string remedy_for(const boost::system::error_code& ec) {
    if (ec == boost::system::errc::too_many_files_open ||
        ec == boost::system::errc::too_many_files_open_in_system)
        return "raise the limit of open files (ulimit -n)";
    return {};
}
/// Keeps a descriptor out of child processes, which would hold the socket open: out of those that
/// execute a program and, while the result lives, out of all.
[[nodiscard]] inline kept_from_children keep_from_children(int descriptor) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return kept_from_children(descriptor);
}

/// Descriptors that are closed unless they are taken.
class open_descriptors {
public:
    open_descriptors() = default;
    open_descriptors(std::vector<int> all) noexcept : all_(std::move(all)) {
        for (int d : all_) close_in_children(d, true);
    }
    open_descriptors(open_descriptors&& other) noexcept
        : all_(std::exchange(other.all_, {})), home_(other.home_) {}
    open_descriptors& operator=(open_descriptors&& other) noexcept {
        std::swap(all_, other.all_);
        std::swap(home_, other.home_);
        return *this;
    }
    ~open_descriptors() {
        if (!home_.is_this()) return;  // closed in a child, where others may have their numbers
        for (int d : all_) {
            close_in_children(d, false);
            ::close(d);
        }
    }
    bool empty() const noexcept { return all_.empty(); }
    /// @pre !empty()
    int front() const noexcept { return all_.front(); }
    /// Removes the first one, which was taken. @pre !empty()
    void pop() noexcept {
        close_in_children(all_.front(), false);
        all_.erase(all_.begin());
    }

private:
    std::vector<int> all_{};
    home_process home_{};
};

/// Sockets that listen at given addresses of this host only, one for each.
class tcp_listener {
public:
    using executor = boost::asio::any_io_executor;

    /// @param hosts  Numeric addresses. Unusable ones are skipped.
    /// @param port   0: any free port, a different one for each.
    /// @throws error errc::io if none can be used
    tcp_listener(const executor& ex, const std::vector<std::string>& hosts,
                 std::uint16_t port = 0) {
        boost::system::error_code ec;
        for (auto const& host : hosts) {
            tcp_socket::acceptor a(ex);
            auto const address = boost::asio::ip::make_address(host, ec);
            if (!ec && open(a, {address, port}, ec)) add(std::move(a));
        }
        if (acceptors_.empty())
            throw error(errc::io, {.expected = "a port to listen at" +
                                               (port == 0 ? "" : ": " + std::to_string(port)),
                                   .found = ec.message(),
                                   .remedy = remedy_for(ec)});
    }
    /// Takes ownership of sockets that another process, or `unique_id`, has opened.
    tcp_listener(const executor& ex, open_descriptors descriptors) {
        std::string why;
        while (!descriptors.empty()) {
            tcp_socket::acceptor taken(ex);
            acceptors_.reserve(acceptors_.size() + 1);
            kept_.reserve(kept_.size() + 1);
            int const d = descriptors.front();
            sockaddr_storage a{};
            socklen_t length = sizeof a;
            boost::system::error_code ec;
            if (::getsockname(d, reinterpret_cast<sockaddr*>(&a), &length) != 0) {
                descriptors.pop();  // not ours
                why = "descriptor " + std::to_string(d) + " is not a socket";
                continue;
            }
            taken.assign(a.ss_family == AF_INET6 ? tcp_socket::v6() : tcp_socket::v4(), d, ec);
            descriptors.pop();
            if (ec)
                why = ec.message();
            else
                add(std::move(taken));
        }
        if (acceptors_.empty())
            throw error(errc::invalid_argument, {.expected = "a listening socket", .found = why});
    }

    std::vector<tcp_socket::acceptor>& acceptors() { return acceptors_; }
    std::vector<tcp_address> addresses() const {
        std::vector<tcp_address> out;
        for (auto const& a : acceptors_) {
            auto const e = a.local_endpoint();
            out.push_back({e.address().to_string(), e.port()});
        }
        return out;
    }
    /// Releases the sockets to the caller.
    std::vector<int> release() {
        std::vector<int> out;
        out.reserve(acceptors_.size());  // none is lost for lack of memory
        kept_.clear();
        for (auto& a : acceptors_) out.push_back(a.release());
        acceptors_.clear();
        return out;
    }

private:
    void add(tcp_socket::acceptor a) {
        acceptors_.push_back(std::move(a));
        kept_.push_back(keep_from_children(acceptors_.back().native_handle()));
    }
    static bool open(tcp_socket::acceptor& a, const tcp_socket::endpoint& at,
                     boost::system::error_code& ec) {
        a.open(at.protocol(), ec);
        if (!ec && at.protocol() == tcp_socket::v6())
            a.set_option(boost::asio::ip::v6_only(true), ec);
        if (!ec) a.set_option(tcp_socket::acceptor::reuse_address(true), ec);
        if (!ec) a.bind(at, ec);
        if (!ec) a.listen(boost::asio::socket_base::max_listen_connections, ec);
        return !ec;
    }

    std::vector<tcp_socket::acceptor> acceptors_{};
    std::vector<kept_from_children> kept_{};
};

/// Listening sockets between `unique_id`, which opens them, and the group that takes them: a rank
/// that connects early waits in a socket's queue.
class waiting_listeners {
public:
    static void put(const tcp_id& id, open_descriptors descriptors) {
        auto& w = of_process();
        std::lock_guard const lock(w.m);
        w.waiting[id.secret] = std::move(descriptors);
    }
    /// Returns none if there are none.
    static open_descriptors take(const tcp_id& id) {
        auto& w = of_process();
        std::lock_guard const lock(w.m);
        auto const it = w.waiting.find(id.secret);
        if (it == w.waiting.end()) return {};
        auto d = std::move(it->second);
        w.waiting.erase(it);
        return d;
    }
    static void close(const tcp_id& id) { (void)take(id); }

private:
    struct all {
        std::mutex m{};
        std::map<decltype(tcp_id::secret), open_descriptors> waiting{};
    };
    static all& of_process() {
        static per_process<all> one;
        return one.get();
    }
};

/// An id whose sockets are closed unless a group is made from it.
class made_id {
public:
    made_id() = default;
    made_id(made_id&&) = delete;
    ~made_id() {
        if (id_) waiting_listeners::close(*id_);  // no effect if a group has taken them
    }
    template <class Make>
    const tcp_id& make(Make&& f) {
        return id_.emplace(f());
    }

private:
    std::optional<tcp_id> id_{};
};

}  // namespace cairn::detail

#endif
