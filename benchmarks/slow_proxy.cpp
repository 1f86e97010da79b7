// SPDX-License-Identifier: Apache-2.0
// A network that is far away and not reliable, between a program and a server of HTTP on this
// machine:
//
//     slow_proxy PORT [--delay MS] [--drop SHARE] [--rate BYTES]
//
// Prints the port where it listens on the loopback, and ends when its input ends: then it prints
// how many requests it has passed on, and how many it has dropped. Each request waits for the
// delay. Of that share of all, the connection is closed instead: before the server has the request,
// in the midst of its body, or when the server has answered, in turn. All connections together
// carry so many bytes a second in each direction.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace slow_proxy {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using clock_type = std::chrono::steady_clock;

struct options {
    unsigned short port = 0;
    std::chrono::milliseconds delay{0};
    double drop = 0;
    double rate = 1e12;
};

/// What passes in one direction takes its turn.
class direction {
public:
    explicit direction(double rate) : rate_(rate) {}
    asio::awaitable<void> pass(std::size_t bytes) {
        auto const now = clock_type::now();
        auto const mine = std::max(now, free_);
        free_ = mine + std::chrono::nanoseconds(
                           static_cast<std::int64_t>(static_cast<double>(bytes) / rate_ * 1e9));
        if (mine - now < std::chrono::milliseconds(1)) co_return;
        asio::steady_timer t(co_await asio::this_coro::executor, mine);
        co_await t.async_wait(use_awaitable);
    }

private:
    double rate_;
    clock_type::time_point free_{};
};

enum class fate { passes, dropped_before, dropped_within, dropped_afterwards };

struct network {
    explicit network(const options& o) : how(o), up(o.rate), down(o.rate) {}
    fate next() {
        ++requests;
        if (std::uniform_real_distribution<double>(0, 1)(dice) >= how.drop) return fate::passes;
        return static_cast<fate>(1 + dropped++ % 3);
    }

    options how;
    direction up, down;
    std::uint64_t requests = 0, dropped = 0;
    std::mt19937_64 dice{1};
};

inline void require(boost::system::error_code e) {
    if (e && e != http::error::need_buffer) throw boost::system::system_error(e);
}

/// Passes one message on, whose header was read.
/// @param only_head  It has no body, whatever its header says.
/// @param within     Ends, with `false`, before the end of the body.
template <bool is_request>
asio::awaitable<bool> relay(http::parser<is_request, http::buffer_body>& p, tcp::socket& from,
                            boost::beast::flat_buffer& buffer, tcp::socket& to, direction& way,
                            std::vector<char>& memory, bool only_head, bool within) {
    http::serializer<is_request, http::buffer_body, http::fields> out(p.get());
    auto& body = p.get().body();
    body.data = nullptr;
    body.more = !p.is_done();
    auto const no_error = asio::as_tuple(use_awaitable);
    co_await http::async_write_header(to, out, use_awaitable);
    if (only_head) co_return true;
    while (!p.is_done() || !out.is_done()) {
        body.data = nullptr;
        body.size = 0;
        body.more = false;
        if (!p.is_done()) {
            body.data = memory.data();
            body.size = memory.size();
            require(std::get<0>(co_await http::async_read(from, buffer, p, no_error)));
            body.size = memory.size() - body.size;
            body.data = memory.data();
            body.more = !p.is_done();
            co_await way.pass(body.size);
        }
        require(std::get<0>(co_await http::async_write(to, out, no_error)));
        if (within) co_return false;
    }
    co_return true;
}

/// Of the head of an answer: a server with Nagle's algorithm sends a small body no sooner, and the
/// clients that are measured acknowledge at once, too.
inline void acknowledge(tcp::socket& from) {
    int const on = 1;
    (void)::setsockopt(from.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

/// Serves one client, until a side closes or a request is dropped.
inline asio::awaitable<void> serve(tcp::socket client, network& net) {
    auto const executor = co_await asio::this_coro::executor;
    tcp::socket server(executor);
    co_await server.async_connect({asio::ip::address_v4::loopback(), net.how.port}, use_awaitable);
    server.set_option(tcp::no_delay(true));
    client.set_option(tcp::no_delay(true));
    boost::beast::flat_buffer from_client(1 << 20), from_server(1 << 20);
    std::vector<char> memory(std::size_t{256} << 10);
    for (;;) {
        http::parser<true, http::buffer_body> asked;
        asked.body_limit(boost::none);
        co_await http::async_read_header(client, from_client, asked, use_awaitable);
        asio::steady_timer t(executor, net.how.delay);
        co_await t.async_wait(use_awaitable);
        auto const what = net.next();
        if (what == fate::dropped_before) co_return;
        bool const is_head = asked.get().method() == http::verb::head;
        if (!co_await relay(asked, client, from_client, server, net.up, memory, false,
                            what == fate::dropped_within))
            co_return;
        http::parser<false, http::buffer_body> answer;
        answer.body_limit(boost::none);
        answer.skip(is_head);
        co_await http::async_read_header(server, from_server, answer, use_awaitable);
        acknowledge(server);
        if (what == fate::dropped_afterwards) co_return;
        co_await relay(answer, server, from_server, client, net.down, memory, is_head, false);
        if (!answer.get().keep_alive()) co_return;
    }
}

inline asio::awaitable<void> accept_all(tcp::acceptor& at, network& net) {
    for (;;) {
        auto client = co_await at.async_accept(use_awaitable);
        // A client that goes away, or a server that does, ends that connection alone.
        asio::co_spawn(at.get_executor(), serve(std::move(client), net), asio::detached);
    }
}

inline int run(const options& o) {
    asio::io_context io(1);
    network net(o);
    tcp::acceptor at(io, {asio::ip::address_v4::loopback(), 0});
    std::printf("%d\n", at.local_endpoint().port());
    std::fflush(stdout);
    asio::co_spawn(io, accept_all(at, net), asio::detached);
    asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
    char byte = 0;
    input.async_read_some(asio::buffer(&byte, 1), [&](auto, auto) { io.stop(); });
    io.run();
    std::printf("%llu requests, %llu dropped\n", static_cast<unsigned long long>(net.requests),
                static_cast<unsigned long long>(net.dropped));
    return 0;
}

}  // namespace slow_proxy

int main(int argc, char** argv) {
    slow_proxy::options o;
    if (argc > 1) o.port = static_cast<unsigned short>(std::atoi(argv[1]));
    for (int i = 2; i + 1 < argc; i += 2) {
        std::string_view const name = argv[i];
        double const v = std::atof(argv[i + 1]);
        if (name == "--delay") o.delay = std::chrono::milliseconds(static_cast<int>(v));
        if (name == "--drop") o.drop = v;
        if (name == "--rate") o.rate = v;
    }
    if (o.port == 0 || o.rate <= 0) {
        std::fputs("usage: slow_proxy PORT [--delay MS] [--drop SHARE] [--rate BYTES]\n", stderr);
        return 2;
    }
    try {
        return slow_proxy::run(o);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "slow_proxy: %s\n", e.what());
        return 1;
    }
}
