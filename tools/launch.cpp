// SPDX-License-Identifier: Apache-2.0
// cairn launch: one process per rank, on this host.
#include "descriptor_limit.hpp"
#include "launch.hpp"
#include "rank_output.hpp"

#include <cairn/comm/unique_id.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tool {

namespace {

namespace asio = boost::asio;

/// Blocks all signals of the calling thread while it lives.
class signals_blocked {
public:
    signals_blocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    signals_blocked(signals_blocked&&) = delete;
    ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

/// Whether a signal is ignored and must stay so: under nohup, or in the background of a shell.
bool is_ignored(int signal) {
    struct sigaction now {};
    return ::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN;
}

/// Forks. A signal that reaches the new process before it is replaced must not run the launcher's
/// handlers: they would report it as the launcher's, through the pipe that both share.
/// @param reset  A signal that only the launcher ignores; 0: none.
pid_t fork_without_handlers(int reset) {
    signals_blocked const until_reset;
    auto const pid = ::fork();
    for (int s = 1; pid == 0 && s < NSIG; ++s)
        if (s == reset || !is_ignored(s)) ::signal(s, SIG_DFL);
    return pid;
}

/// One rank's process. It leads a process group that contains all processes it starts.
struct process {
    pid_t pid = -1;
    int rank = 0;
    bool running = true;
};

class launcher {
public:
    explicit launcher(const launch_options& o) : o_(o) {
        sigset_t waited;
        ::sigemptyset(&waited);
        ::sigaddset(&waited, SIGCHLD);
        for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
            if (is_ignored(s)) continue;
            signals_.add(s);
            ::sigaddset(&waited, s);
        }
        // A supervisor may have blocked them for itself: the mask survives exec.
        ::pthread_sigmask(SIG_UNBLOCK, &waited, &inherited_);
        // Whoever reads the output may end first, e.g. tee, which a Ctrl-C ends too.
        if (!is_ignored(SIGPIPE)) {
            ::signal(SIGPIPE, SIG_IGN);
            reset_ = SIGPIPE;
        }
    }

    int run() {
        open_group();
        try {
            for (int r = 0; r < o_.ranks; ++r) start(r);
        } catch (const std::exception& e) {
            say(std::string(e.what()) + "; terminating the ranks that were started");
            code_ = 1;
            told_ = true;
            end_rest(SIGTERM);
            grace_.expires_after(std::chrono::seconds(5));
            grace_.async_wait([this](auto ec) {
                if (!ec) end_rest(SIGKILL);
            });
        }
        ::close(listener_);
        // Only now: a process with threads should not fork.
        for (auto& to : outputs_) to.writer.start([this] { drained(); });
        for (auto const& s : streams_) s->start();
        wait_for_signals();
        wait_for_children();
        io_.run();
        for (auto& to : outputs_) {
            to.writer.stop();
            if (int const why = to.writer.failure(); why != 0) {
                std::fprintf(stderr, "cairn launch: output was lost: %s\n", std::strerror(why));
                if (code_ == 0 && why != EPIPE) code_ = 1;
            }
        }
        for (auto const& p : processes_) ::waitpid(p.pid, nullptr, WNOHANG);
        return code_;
    }

private:
    /// Opens the socket on which rank 0 accepts the others, before any of them runs. Only this host
    /// can reach it.
    void open_group() {
        asio::ip::tcp::acceptor a(io_);
        boost::system::error_code ec;
        listen(a, asio::ip::address_v4::loopback(), ec);
        if (ec) listen(a, asio::ip::address_v6::loopback(), ec);
        if (ec) {  // a container may have no loopback
            boost::system::error_code unknown;
            for (auto const& own :
                 asio::ip::tcp::resolver(io_).resolve(asio::ip::host_name(unknown), "", unknown))
                if (ec) listen(a, own.endpoint().address(), ec);
        }
        if (ec) throw std::runtime_error("no port of this host to listen on: " + ec.message());
        auto const at = a.local_endpoint();
        id_ = {{{at.address().to_string(), at.port()}}, cairn::tcp_id::new_secret()};
        listener_ = a.release();
        ::fcntl(listener_, F_SETFD, FD_CLOEXEC);
        // Both may be the same terminal or file.
        struct stat out {
        }, err{};
        outputs_.emplace_back(io_, 1);
        bool const same = ::fstat(1, &out) == 0 && ::fstat(2, &err) == 0 &&
                          out.st_dev == err.st_dev && out.st_ino == err.st_ino;
        if (!same) outputs_.emplace_back(io_, 2);
    }

    static void listen(asio::ip::tcp::acceptor& a, const asio::ip::address& address,
                       boost::system::error_code& ec) {
        asio::ip::tcp::endpoint const at(address, 0);
        a = asio::ip::tcp::acceptor(a.get_executor());
        a.open(at.protocol(), ec);
        // For the ranks' next group at this port, besides closed connections of the previous one.
        if (!ec) a.set_option(asio::socket_base::reuse_address(true), ec);
        if (!ec) a.bind(at, ec);
        if (!ec) a.listen(asio::socket_base::max_listen_connections, ec);
    }

    void start(int rank) {
        std::array<int, 2> out{}, err{};
        if (::pipe2(out.data(), O_CLOEXEC) != 0) throw failed("no pipe");
        if (::pipe2(err.data(), O_CLOEXEC) != 0) throw failed("no pipe");
        auto const parent = ::getpid();
        auto const pid = fork_without_handlers(reset_);
        if (pid < 0) throw failed("cannot create a process");
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
        streams_.push_back(std::make_shared<rank_stream>(io_, out[0], outputs_.front(), 2 * rank));
        streams_.push_back(
            std::make_shared<rank_stream>(io_, err[0], outputs_.back(), 2 * rank + 1));
    }
    static std::runtime_error failed(const char* what) {
        std::string text = std::string(what) + ": " + std::strerror(errno);
        if (errno == EMFILE || errno == ENFILE)
            text += " (raise the limit of open files, ulimit -n)";
        if (errno == EAGAIN) text += " (raise the limit of processes, ulimit -u)";
        return std::runtime_error(text);
    }

    /// Runs in the new process; never returns.
    [[noreturn]] void become(int rank) {
        // Rank 0 gets standard input, but not from a terminal, which only the foreground can read.
        if (rank != 0 || ::isatty(0) != 0) {
            int const none = ::open("/dev/null", O_RDONLY);
            if (none < 0) {
                ::perror("cairn launch: /dev/null");
                ::_exit(127);
            }
            ::dup2(none, 0);
            ::close(none);
        }
        std::vector<std::pair<const char*, std::string>> variables{
            {"CAIRN_RANK", std::to_string(rank)},
            {"CAIRN_WORLD_SIZE", std::to_string(o_.ranks)},
            {"CAIRN_LOCAL_RANK", std::to_string(rank)},
            {"CAIRN_RUN", std::to_string(::getppid())},
            {"CAIRN_GROUP", id_.text()}};
        ::unsetenv("CAIRN_LISTEN_FD");
        ::unsetenv("TORCHELASTIC_RUN_ID");  // of a launcher around this one
        if (rank == 0)                      // a copy without close-on-exec
            variables.emplace_back("CAIRN_LISTEN_FD", std::to_string(::dup(listener_)));
        for (auto const& [name, value] : variables) ::setenv(name, value.c_str(), 1);
        auto words = o_.command;
        std::vector<char*> argv;
        for (auto& w : words) argv.push_back(w.data());
        argv.push_back(nullptr);
        ::pthread_sigmask(SIG_SETMASK, &inherited_, nullptr);
        // Until here, this process has the descriptors of all earlier ranks, and needs more.
        limit_.restore();
        ::execvp(argv[0], argv.data());
        std::fprintf(stderr, "cairn launch: %s: %s\n", argv[0], std::strerror(errno));
        std::fflush(stderr);
        ::_exit(127);
    }

    void wait_for_signals() {
        signals_.async_wait([this](auto ec, int signal) {
            if (ec) return;
            if (signal == SIGUSR1 || signal == SIGUSR2) {
                end_rest(signal);
            } else if (signal == SIGTSTP) {
                end_rest(SIGSTOP);
                ::raise(SIGSTOP);  // until it is continued
                end_rest(SIGCONT);
            } else {
                // Forwarded: ranks that then all return 0 have done what it asked for. The second
                // one that is typed kills; others may be sent twice at once, e.g. SIGHUP when a
                // terminal closes, or SIGTERM and SIGHUP.
                bool const typed = signal == SIGINT || signal == SIGQUIT;
                bool const again = typed && typed_++ > 0;
                if ((again || left() == 0) && code_ == 0) code_ = 128 + signal;
                if (left() == 0 || typed_ > 2) ::_exit(code_);  // only output is pending
                forwarded_ = again ? SIGKILL : signal;
                end_rest(forwarded_);
            }
            wait_for_signals();
        });
    }
    void wait_for_children() {
        children_.async_wait([this](auto ec, int) {
            if (ec) return;
            look();
            if (left() > 0) wait_for_children();
        });
        look();
    }
    /// Finds processes that have ended. They stay zombies, so that group ids are not reused.
    void look() {
        for (auto& p : processes_) {
            siginfo_t how{};
            if (!p.running ||
                ::waitid(P_PID, static_cast<id_t>(p.pid), &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
                how.si_pid != p.pid)
                continue;
            p.running = false;
            if (how.si_code != CLD_EXITED || how.si_status != 0) failed(p, how);
        }
        if (left() == 0) finish();
    }
    void failed(const process& p, const siginfo_t& how) {
        bool const killed = how.si_code != CLD_EXITED;
        auto const status = how.si_status;
        if (std::exchange(told_, true)) return;
        if (code_ == 0) code_ = killed ? 128 + status : status;
        if (!killed || status != forwarded_)
            say("rank " + std::to_string(p.rank) +
                (killed ? " was killed by signal " + std::to_string(status) + " (" +
                              ::strsignal(status) + ")"
                        : " ended with exit code " + std::to_string(status)));
        // The group reports the failure to the other ranks, which may print errors of their own.
        grace_.expires_after(std::chrono::seconds(o_.grace));
        grace_.async_wait([this](auto ec) {
            if (ec) return;
            say("terminating the ranks that are left: " + std::to_string(left()));
            end_rest(SIGTERM);
            grace_.expires_after(std::chrono::seconds(5));
            grace_.async_wait([this](auto e) {
                if (!e) end_rest(SIGKILL);
            });
        });
    }
    /// All ranks have ended: forwards their remaining output, and waits for nothing else.
    void finish() {
        if (std::exchange(finishing_, true)) return;
        children_.cancel();
        grace_.cancel();
        int held = 0;
        for (auto const& s : streams_) held += s->finish();
        if (held > 0 && code_ == 0)
            say("processes that the ranks left behind still hold their output open");
        drained();
    }
    void drained() {
        for (auto const& s : streams_) s->start();
        if (!finishing_) return;
        for (auto& to : outputs_)
            if (!to.writer.idle()) return;
        io_.stop();
    }
    void say(const std::string& text) {
        outputs_.back().writer.write("cairn launch: " + text + "\n");
    }

    /// Sends a signal to all ranks and the processes they have started.
    void end_rest(int signal) {
        for (auto const& p : processes_) {
            if (!p.running && signal != SIGKILL && signal != SIGTERM) continue;
            ::kill(-p.pid, signal);
            // A stopped process cannot end.
            if (signal != SIGKILL && signal != SIGSTOP) ::kill(-p.pid, SIGCONT);
        }
    }
    int left() const {
        int n = 0;
        for (auto const& p : processes_) n += p.running;
        return n;
    }

    const launch_options& o_;
    descriptor_limit limit_{};  // two descriptors for each rank
    asio::io_context io_{1};
    asio::signal_set signals_{io_};
    asio::signal_set children_{io_, SIGCHLD};
    asio::steady_timer grace_{io_};
    cairn::tcp_id id_{};
    int listener_ = -1;
    std::deque<output> outputs_{};  ///< For standard output and standard error, or both.
    std::deque<process> processes_{};
    std::vector<std::shared_ptr<rank_stream>> streams_{};
    int typed_ = 0, forwarded_ = 0;
    int reset_ = 0;         ///< A signal that the ranks do not ignore as this process does.
    sigset_t inherited_{};  ///< The signals that were blocked when the launcher started.
    bool told_ = false;
    bool finishing_ = false;
    int code_ = 0;
};

}  // namespace

int launch(const launch_options& o) {
    return launcher(o).run();
}

}  // namespace tool
