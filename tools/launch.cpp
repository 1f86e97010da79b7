// SPDX-License-Identifier: Apache-2.0
// cairn launch: one process per rank, on this host or on several.
#include "launch.hpp"

#include <cairn/comm/tcp/listener.hpp>
#include <cairn/comm/tcp/unique_id.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <istream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tool {

namespace {

namespace asio = boost::asio;

/// For a shell.
std::string shell_quoted(const std::string& s) {
    std::string out = "'";
    for (char c : s) {
        if (c == '\'')
            out += "'\\''";
        else
            out += c;
    }
    return out + "'";
}

/// Passes one stream of one rank on, line by line, with the rank in front.
class prefixed : public std::enable_shared_from_this<prefixed> {
public:
    prefixed(asio::io_context& io, int from, std::FILE* to, int rank)
        : from_(io, from), to_(to), prefix_("[" + std::to_string(rank) + "] ") {}
    void start() {
        asio::async_read_until(from_, buffer_, '\n',
                               [self = shared_from_this()](auto ec, std::size_t) {
                                   self->print(ec.failed());
                                   if (!ec) self->start();
                               });
    }

private:
    void print(bool rest_too) {
        std::istream in(&buffer_);
        std::string line;
        while (buffer_.size() != 0) {
            auto const data = buffer_.data();
            auto const* const begin = static_cast<const char*>(data.data());
            bool const whole = std::memchr(begin, '\n', data.size()) != nullptr;
            if (!whole && !rest_too) break;
            std::getline(in, line);
            line = prefix_ + line + "\n";
            std::fwrite(line.data(), 1, line.size(), to_);
        }
        std::fflush(to_);
    }

    asio::posix::stream_descriptor from_;
    std::FILE* to_;
    std::string prefix_;
    asio::streambuf buffer_{};
};

struct process {
    pid_t pid = -1;
    int rank = 0;
    bool running = true;
};

class launcher {
public:
    explicit launcher(const launch_options& o)
        : o_(o), signals_(io_, SIGINT, SIGTERM, SIGHUP), children_(io_, SIGCHLD), grace_(io_) {}

    int run() {
        open_group();
        for (int r = 0; r < o_.ranks; ++r) start(r);
        if (listener_ >= 0) ::close(listener_);
        wait_for_signals();
        wait_for_children();
        io_.run();
        return code_;
    }

private:
    const std::string& host_of(int rank) const {
        auto const per = (o_.ranks + static_cast<int>(o_.hosts.size()) - 1) /
                         static_cast<int>(o_.hosts.size());
        return o_.hosts[static_cast<std::size_t>(rank / per)];
    }
    bool here(int rank) const { return o_.hosts.empty() || host_of(rank) == "localhost"; }
    int local_rank(int rank) const {
        if (o_.hosts.empty()) return rank;
        int n = 0;
        for (int r = 0; r < rank; ++r) n += host_of(r) == host_of(rank);
        return n;
    }

    /// Where the ranks find rank 0: a socket that is open before any of them runs, where that can
    /// be.
    void open_group() {
        id_.secret = cairn::tcp_id::new_secret();
        if (!here(0)) {
            if (o_.port == 0)
                throw std::runtime_error("rank 0 runs on " + host_of(0) +
                                         ": say with --port which port it may use there");
            id_.addresses = {{host_of(0), static_cast<std::uint16_t>(o_.port)}};
            return;
        }
        cairn::detail::tcp_listener l(io_, static_cast<std::uint16_t>(o_.port));
        if (o_.hosts.empty())
            id_.addresses = {{"127.0.0.1", l.port()}};
        else
            id_.addresses = l.addresses(o_.interfaces);
        listener_ = l.acceptor().release();
    }

    void start(int rank) {
        std::array<int, 2> out{}, err{};
        if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0)
            throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
        auto const parent = ::getpid();
        auto const pid = ::fork();
        if (pid < 0) throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
        if (pid == 0) {
            ::setpgid(0, 0);
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (::getppid() != parent) ::_exit(1);
            ::dup2(out[1], 1);
            ::dup2(err[1], 2);
            become(rank);
        }
        ::setpgid(pid, pid);
        ::close(out[1]);
        ::close(err[1]);
        processes_.push_back({pid, rank, true});
        std::make_shared<prefixed>(io_, out[0], stdout, rank)->start();
        std::make_shared<prefixed>(io_, err[0], stderr, rank)->start();
    }

    /// In the new process: never returns.
    [[noreturn]] void become(int rank) {
        std::vector<std::pair<std::string, std::string>> variables{
            {"CAIRN_RANK", std::to_string(rank)},
            {"CAIRN_WORLD_SIZE", std::to_string(o_.ranks)},
            {"CAIRN_LOCAL_RANK", std::to_string(local_rank(rank))},
            {"CAIRN_RUN", std::to_string(::getppid())}};
        if (!o_.hosts.empty())
            variables.emplace_back("CAIRN_HOSTS", std::to_string(o_.hosts.size()));
        std::vector<std::string> words;
        if (here(rank)) {
            variables.emplace_back("CAIRN_GROUP", id_.text());
            if (rank == 0 && listener_ >= 0) {
                int const fd = ::dup(listener_);  // without close-on-exec
                variables.emplace_back("CAIRN_LISTEN_FD", std::to_string(fd));
            }
            for (auto const& [name, value] : variables)
                ::setenv(name.c_str(), value.c_str(), 1);
            words = o_.command;
        } else {
            words = elsewhere(rank, variables);
        }
        std::vector<char*> argv;
        for (auto& w : words) argv.push_back(w.data());
        argv.push_back(nullptr);
        ::execvp(argv[0], argv.data());
        std::fprintf(stderr, "cairn launch: %s: %s\n", argv[0], std::strerror(errno));
        std::fflush(stderr);
        ::_exit(127);
    }
    /// The command on another host. The id, which holds the secret, goes through standard input:
    /// command lines can be read by everybody there.
    std::vector<std::string> elsewhere(
        int rank, const std::vector<std::pair<std::string, std::string>>& variables) {
        std::string script = "read -r CAIRN_GROUP; export CAIRN_GROUP; cd " +
                             shell_quoted(working_directory()) + " && exec env";
        for (auto const& [name, value] : variables)
            script += " " + name + "=" + shell_quoted(value);
        for (auto const& name : o_.pass_on)
            if (auto const* const v = std::getenv(name.c_str()))
                script += " " + name + "=" + shell_quoted(v);
        for (auto const& w : o_.command) script += " " + shell_quoted(w);
        script += " </dev/null";
        std::array<int, 2> in{};
        auto const line = id_.text() + "\n";
        if (::pipe(in.data()) != 0 ||
            ::write(in[1], line.data(), line.size()) != static_cast<ssize_t>(line.size()))
            ::_exit(126);
        ::dup2(in[0], 0);
        ::close(in[0]);
        ::close(in[1]);
        auto words = o_.shell;
        bool const joins = words[0].size() >= 3 && words[0].substr(words[0].size() - 3) == "ssh";
        words.push_back(host_of(rank));
        words.insert(words.end(), {"sh", "-c", joins ? shell_quoted(script) : script});
        return words;
    }
    static std::string working_directory() {
        std::unique_ptr<char, decltype(&std::free)> const d(::getcwd(nullptr, 0), &std::free);
        return d ? d.get() : ".";
    }

    void wait_for_signals() {
        signals_.async_wait([this](auto ec, int signal) {
            if (ec) return;
            // Once is passed on, twice means it.
            end_rest(asked_++ == 0 ? signal : SIGKILL);
            if (code_ == 0) code_ = 128 + signal;
            if (left() > 0) wait_for_signals();
        });
    }
    void wait_for_children() {
        children_.async_wait([this](auto ec, int) {
            if (ec) return;
            reap();
            if (left() > 0) wait_for_children();
        });
        reap();
    }
    void reap() {
        for (auto& p : processes_) {
            int status = 0;
            if (!p.running || ::waitpid(p.pid, &status, WNOHANG) != p.pid) continue;
            p.running = false;
            if (status != 0) failed(p, status);
        }
        if (left() > 0) return;
        signals_.cancel();
        children_.cancel();
        grace_.cancel();
    }
    void failed(const process& p, int status) {
        bool const killed = WIFSIGNALED(status);
        auto const how = killed ? "was killed by signal " + std::to_string(WTERMSIG(status)) +
                                      " (" + ::strsignal(WTERMSIG(status)) + ")"
                                : "ended with exit code " + std::to_string(WEXITSTATUS(status));
        if (std::exchange(told_, true)) return;
        if (code_ == 0) code_ = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (asked_ > 0) return;
        std::fprintf(stderr, "cairn launch: rank %d %s\n", p.rank, how.c_str());
        // The others hear of it from their group, and may have something to say.
        grace_.expires_after(std::chrono::seconds(o_.grace));
        grace_.async_wait([this](auto ec) {
            if (ec) return;
            std::fprintf(stderr, "cairn launch: ends %d ranks that are left\n", left());
            end_rest(SIGTERM);
            grace_.expires_after(std::chrono::seconds(5));
            grace_.async_wait([this](auto e) {
                if (!e) end_rest(SIGKILL);
            });
        });
    }
    void end_rest(int signal) {
        for (auto const& p : processes_) {
            if (!p.running) continue;
            ::kill(-p.pid, signal);
            // A process that was stopped cannot end.
            if (signal != SIGKILL) ::kill(-p.pid, SIGCONT);
        }
    }
    int left() const {
        int n = 0;
        for (auto const& p : processes_) n += p.running;
        return n;
    }

    const launch_options& o_;
    asio::io_context io_{};
    asio::signal_set signals_, children_;
    asio::steady_timer grace_;
    cairn::tcp_id id_{};
    int listener_ = -1;
    std::deque<process> processes_{};
    int asked_ = 0;
    bool told_ = false;
    int code_ = 0;
};

}  // namespace

int launch(const launch_options& o) { return launcher(o).run(); }

}  // namespace tool
