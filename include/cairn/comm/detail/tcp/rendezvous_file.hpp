// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_RENDEZVOUS_FILE_HPP
#define CAIRN_COMM_DETAIL_TCP_RENDEZVOUS_FILE_HPP

#include <cairn/comm/detail/launch_environment.hpp>
#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/comm/detail/tcp/process_in_words.hpp>
#include <cairn/comm/unique_id.hpp>
#include <cairn/detail/absolute_path.hpp>
#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/host_name.hpp>
#include <cairn/detail/unique_fd.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The file in which rank 0 publishes the group's id for ranks that share only a directory;
/// readable only by its user. It is removed once the group is complete, or could not be formed.
///
/// Until then rank 0 holds a lock on it, which distinguishes a file in use from one left by an
/// earlier run.
class rendezvous_file {
public:
    /// Makes the directory if it does not exist, on any rank, so that none waits for a rank that
    /// failed to.
    /// @throws error errc::io
    rendezvous_file(const std::string& directory, const std::string& name, int rank)
        : path_((absolute_path(directory) / ("cairn-" + name + ".group")).string()) {
        if (name.find('/') != name.npos)
            throw error(errc::invalid_argument, {.rank = rank,
                                                 .expected = "a name of a run without '/'",
                                                 .found = "'" + name + "'"});
        std::error_code e;
        std::filesystem::create_directories(directory, e);
        if (!e && !std::filesystem::is_directory(directory, e) && !e)
            e = std::make_error_code(std::errc::not_a_directory);
        if (e)
            throw error(errc::io,
                        {.rank = rank,
                         .file = path_,
                         .found = "cannot make the directory '" + directory + "': " + e.message(),
                         .remedy = writable});
    }
    rendezvous_file(rendezvous_file&&) = delete;
    ~rendezvous_file() {
        if (is_at_path(mine_.get())) ::unlink(path_.c_str());
    }

    /// Replaces a file left by an earlier run.
    /// @throws error errc::already_exists if another run uses it, errc::io
    void write(const tcp_id& id) {
        auto temporary = path_ + ".XXXXXX";
        mine_ = unique_fd([&] { return ::mkostemp(temporary.data(), O_CLOEXEC); });  // mode 0600
        if (mine_.get() < 0) throw failed("a file for the group's id");
        text_ = id.text() + "\n";
        auto const written =
            without_sigxfsz([&] { return ::write(mine_.get(), text_.data(), text_.size()); });
        bool ok = written == static_cast<ssize_t>(text_.size()) && sync(mine_.get());
        struct stat s {};
        if (ok && ::fstat(mine_.get(), &s) == 0 && !is_ours_alone(s)) {
            ::unlink(temporary.c_str());
            throw error(errc::io,
                        {.file = path_,
                         .expected = "a file system that keeps owner and mode (0600) of a file",
                         .found = "one that changes them (root_squash, or a mount with fixed ones)",
                         .remedy = "name another directory that all ranks share, or pass the id "
                                   "to them yourself (tcp_group::unique_id)"});
        }
        ::flock(mine_.get(), LOCK_EX | LOCK_NB);  // file systems without locks do without
        while (ok && ::link(temporary.c_str(), path_.c_str()) != 0) {
            if (errno != EEXIST) {  // the file system has no hard links
                ok = ::rename(temporary.c_str(), path_.c_str()) == 0;
                break;
            }
            if (!remove_stale()) {
                ::unlink(temporary.c_str());
                claim();
                throw error(errc::already_exists,
                            {.file = path_,
                             .expected = "no other run with this name",
                             .found = "another run that holds the lock on the file",
                             .remedy = own_place});
            }
        }
        if (ok) {
            ::unlink(temporary.c_str());
            return;
        }
        auto e = failed("room for the group's id");
        ::unlink(temporary.c_str());
        throw e;
    }
    /// Returns nothing if the file does not exist yet, is incomplete, or holds something else.
    /// @throws error errc::invalid_argument if another user could have written it,
    /// errc::already_exists if two runs use it
    std::optional<tcp_id> read() {
        struct stat s {};
        auto const text = contents(&s);
        if (!text) {
            revalidate();
            return {};
        }
        if (!is_ours_alone(s))
            throw error(errc::invalid_argument,
                        {.file = path_,
                         .expected = "a file of this user's alone (mode 0600)",
                         .found = "one that others own, or may read or write",
                         .remedy = "remove it, and start the job again"});
        if (text->empty() || text->back() != '\n') return {};
        auto const all = std::string_view(*text).substr(0, text->size() - 1);
        if (auto const end = all.find('\n'); end != all.npos) throw shared(all.substr(end + 1));
        try {
            auto id = tcp_id::parse(all);
            seen_ = true;
            return id;
        } catch (const error&) {  // left by a run of another version: rank 0 replaces it
            return {};
        }
    }
    /// On rank 0, once all ranks have joined: some may belong to another run.
    /// @throws error errc::already_exists if the rank 0 of another run has used the file
    void check_alone() {
        auto const text = contents();  // opened again: a network file system may lag otherwise
        if (!text || text->empty() || *text == text_) return;
        if (!text->starts_with(text_)) throw shared("one that has replaced the file");
        throw shared(std::string_view(*text).substr(text_.size()));
    }

    const std::string& path() const noexcept { return path_; }
    /// Whether `read` has found an id.
    bool seen() const noexcept { return seen_; }

private:
    static constexpr const char* writable = "name a directory that all ranks can write to";

    static constexpr const char* own_place =
        "give each run a name of its own (from_directory), or a directory (CAIRN_RENDEZVOUS_DIR)";

    static bool is_ours_alone(const struct stat& s) {
        return s.st_uid == ::geteuid() && (s.st_mode & 077) == 0;
    }
    unique_fd open(int flags) const {
        return unique_fd([&] { return ::open(path_.c_str(), flags | O_CLOEXEC | O_NOFOLLOW); });
    }
    /// A client of NFS reports a file as absent until the attributes of its directory expire, which
    /// takes up to a minute, or until that is opened. Each time costs a request to the server.
    void revalidate() {
        auto const now = std::chrono::steady_clock::now();
        if (now < revalidate_at_) return;
        revalidate_at_ = now + std::chrono::milliseconds(500);
        auto const directory = std::filesystem::path(path_).parent_path();
        unique_fd const opened(
            [&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    }
    /// Tells the ranks of the run that uses the file that there is another one.
    void claim() const {
        auto const fd = open(O_WRONLY | O_APPEND);
        if (fd.get() < 0) return;
        auto const line = process_in_words() + "\n";
        // If it fails, that run is not told.
        (void)without_sigxfsz([&] { return ::write(fd.get(), line.data(), line.size()); });
    }
    /// Returns nothing if the file does not exist; an empty text if it cannot be read.
    std::optional<std::string> contents(struct stat* s = nullptr) const {
        auto const fd = open(O_RDONLY);
        if (fd.get() < 0 || (s != nullptr && ::fstat(fd.get(), s) != 0)) return {};
        return text_of(fd.get()).value_or("");
    }
    /// Returns nothing if it cannot be read.
    static std::optional<std::string> text_of(int descriptor) {
        std::string text(8192, '\0');
        auto const n = ::pread(descriptor, text.data(), text.size(), 0);
        if (n < 0) return {};
        text.resize(static_cast<std::size_t>(n));
        return text;
    }
    /// @return False with an errno; true where the file system cannot sync.
    static bool sync(int descriptor) {
        return ::fsync(descriptor) == 0 || errno == EINVAL || errno == ENOSYS ||
               errno == EOPNOTSUPP;
    }
    error shared(std::string_view with) const {
        return {errc::already_exists,
                {.file = path_,
                 .expected = "one run with this name",
                 .found = "another one, whose rank 0 was " +
                          std::string(with.substr(0, std::min<std::size_t>(with.find('\n'), 300))),
                 .remedy = own_place}};
    }
    /// Whether the file still has its name. Its text shows that, which is that of one run alone:
    /// file systems may change the numbers of files.
    bool is_at_path(int descriptor) const {
        auto const text = text_of(descriptor);
        return text && contents() == text;
    }
    /// @return Whether no file is in use.
    bool remove_stale() const {
        auto old = open(O_RDWR);  // NFS locks nothing else
        if (old.get() < 0 && errno != ENOENT) old = open(O_RDONLY);
        if (old.get() < 0) return errno == ENOENT || ::unlink(path_.c_str()) == 0;
        bool const used = ::flock(old.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!used && is_at_path(old.get())) ::unlink(path_.c_str());
        return !used;
    }
    error failed(std::string expected) const {
        return {errc::io,
                {.file = path_,
                 .expected = std::move(expected),
                 .found = std::strerror(errno),
                 .remedy = writable}};
    }

    std::string path_;
    unique_fd mine_{};    ///< Open and locked by this process alone.
    std::string text_{};  ///< What this process has written.
    bool seen_ = false;
    std::chrono::steady_clock::time_point revalidate_at_{};
};

/// Returns a name that distinguishes this run of a job from others that use the same directory.
/// Ranks of a single-host run include the host name: launchers may use the same ids on each host.
inline std::string rendezvous_name(const launch_environment& e) {
    auto const host = e.one_host ? host_name() : "";
    return host.empty() ? e.run : e.run + "-" + host;
}

/// Returns the rendezvous directory of ranks that were started by `e`.
/// @throws error errc::invalid_argument if several hosts need one and none is configured
inline std::string rendezvous_directory(const std::string& given, const launch_environment& e) {
    if (!given.empty()) return given;
    if (auto const* const d = std::getenv("CAIRN_RENDEZVOUS_DIR"); d != nullptr && *d != '\0')
        return d;
    if (!e.one_host)
        throw error(errc::invalid_argument,
                    {.expected = "a directory that all hosts share, for ranks that " + e.launcher +
                                 " started on several",
                     .found = "none",
                     .remedy = "set CAIRN_RENDEZVOUS_DIR or tcp_options::directory"});
    auto const d = "/tmp/cairn-" + std::to_string(::geteuid());
    struct stat s {};
    if ((::mkdir(d.c_str(), 0700) != 0 && errno != EEXIST) || ::lstat(d.c_str(), &s) != 0 ||
        !S_ISDIR(s.st_mode) || s.st_uid != ::geteuid() || (s.st_mode & 022) != 0)
        throw error(errc::io, {.file = d,
                               .expected = "a directory of this user's alone",
                               .found = "something else",
                               .remedy = "remove it, or set CAIRN_RENDEZVOUS_DIR"});
    return d;
}

/// Whether a descriptor is a socket that listens at a port of this host.
inline bool listens_at(int descriptor, std::uint16_t port) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
        return false;
    sockaddr_storage a{};
    length = sizeof a;
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&a), &length) != 0) return false;
    auto const own = a.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&a)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&a)->sin_port;
    return ntohs(own) == port;
}
/// Opens rank 0's socket at the address in its id.
/// @param descriptor  The launcher's socket there, which serves all groups, of children too: a
///                    program between it and this one, such as a shell, may hold the port. Below 0:
///                    there is none.
inline void listen_as_told(const tcp_id& id, int descriptor) {
    auto const& at = id.addresses.at(0);
    bool const given = descriptor >= 0 && listens_at(descriptor, at.port);
    if (given) {
        std::vector<int> own(1);
        own[0] = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
        if (own[0] >= 0) return waiting_listeners::put(id, std::move(own));
    }
    boost::asio::io_context io;
    try {
        tcp_listener listener(io.get_executor(), {at.host}, at.port);
        waiting_listeners::put(id, listener.release());
    } catch (const error& e) {
        auto c = e.context();
        auto const taken = std::make_error_code(std::errc::address_in_use).message();
        if (descriptor < 0 || given || c.found != taken) throw;
        c.remedy = "let the program between cairn launch and this one pass descriptor " +
                   std::to_string(descriptor) +
                   " on, as in Python subprocess.run(..., close_fds=False)";
        throw error(e.code(), std::move(c));
    }
}

}  // namespace cairn::detail

#endif
